"""Functions made of ops, one definition each for the tracer, the importer of ONNX and fuzzing."""
