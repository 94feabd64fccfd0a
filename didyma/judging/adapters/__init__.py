"""Tasks in the formats of others: KernelBench, FlashInfer-Trace and GPU MODE."""
