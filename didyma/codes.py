"""What each error code means, with an example of what raises it.

A law means what the verifier that holds it says, and its example is a text that breaks it.  Of the
other codes an example that begins with ``>>> `` is Python, run with ``dd`` and ``np``; one that
begins with ``$ `` is a command; any other is described.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import didyma

LAW = re.compile(r"[DGLP]-[a-z-]+")
EXAMPLES = "laws.json"  # beside this module: a text that breaks each law, by id


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code means, in a sentence, and an example."""

    text: str
    example: str


def meaning(code: str) -> Meaning | None:
    """Return what a code means; None for what is no code."""
    if LAW.fullmatch(code):
        return _laws().get(code)
    return CODES.get(code)


def known() -> tuple[str, ...]:
    """Return every code and law id, sorted."""
    return tuple(sorted((*CODES, *_laws())))


def _laws() -> dict[str, Meaning]:
    from didyma.pages.spec import laws

    texts = json.loads((files(didyma) / EXAMPLES).read_text(encoding="utf-8"))
    rows = (row for module in laws().values() for row in module)
    return {law: Meaning(f"{says[0].upper()}{says[1:]}.", texts.get(law, "")) for law, says in rows}


def _table(*rows: tuple[str, str, str]) -> Mapping[str, Meaning]:
    return {code: Meaning(text, example) for code, text, example in rows}


_PYTHON = _table(
    ("arity", "An op, or a program, is given another number of operands than it takes.",
     "a node `add` of one operand, made by hand"),
    ("bad-attr", "An attribute of an op is missing, of the wrong kind or out of range.",
     "a `gather` whose axis is no integer"),
    ("bad-axis", "An axis is not one of the tensor's axes, or cannot be used there.",
     ">>> dd.trace(dd.f32[2, 3])(lambda x: dd.sum(x, axis=2))"),
    ("bad-bucket", "Buckets are given for a dim that no input has, or are no sizes of it.",
     '>>> dd.bucketed(dd.trace(dd.f32[dd.dim("n", 1, 4)])(lambda x: -x), {"n": (3, 9)})'),
    ("not-padded", "A program is to run on padded inputs, but an op would see what is padded.",
     '>>> dd.bucketed(dd.trace(dd.f32[dd.dim("n", 1, 4)])(dd.flip), {"n": 0.5})'),
    ("bad-call", "A function is called with arguments that it does not take.",
     "dd.sum(x, axes=0), where the keyword is axis"),
    ("bad-index", "A tensor is indexed by something that its shape or tracing does not allow.",
     "x[5] of an f32[3]"),
    ("bad-operand", "A function of tensors is given something that is no tensor or number.",
     "x + None"),
    ("bad-result", "A traced function returns something that is no tensor or tuple of tensors.",
     "a traced function without `return`"),
    ("complex-operand", "A complex number or array meets a function of real tensors.",
     "x + 1j, where complex numbers are pairs of reals"),
    ("immutable", "A tensor is changed in place, though every value of a graph is made once.",
     "x[0] = 1.0"),
    ("numpy-function", "A function of NumPy is called on a tensor, which has no elements yet.",
     "np.sum(x), where dd.sum(x) is meant"),
    ("traced-value", "Python asks for the value of a tensor, which is not known while a program is "
     "traced.",
     "float(x)"),
    ("unknown-name", "A module of Didyma has no such name; the error says what to write instead.",
     ">>> dd.vstack"),
    ("unknown-dtype", "Something is given as a dtype that is none of Didyma's.",
     "x.astype('complex64')"),
    ("bad-range", "A symbolic size has a name that is no identifier, or an empty range.",
     '>>> dd.dim("n", 4, 2)'),
    ("branch-mismatch", "The two branches of a condition differ in the number, dtype or rank of "
     "their results.",
     ">>> dd.trace(dd.f32[2])(lambda x: "
     "dd.cond(dd.any(x > 0), lambda y: y, lambda y: dd.sum(y, axis=0), x))"),
    ("carried-mismatch", "The body of a loop gives its carried values other types than they had.",
     ">>> dd.trace(dd.f32[2])(lambda x: dd.while_loop(dd.any, lambda y: dd.sum(y, axis=0), x))"),
    ("foreign-value", "A tensor of one traced function is used in another, or outside the branch "
     "or body that it belongs to.",
     "a function that keeps a tensor in a global variable, where the next function reads it"),
    ("not-compiled", "A traced program is called on arrays before it is compiled.",
     ">>> dd.trace(dd.f32[2])(lambda x: x + 1.0)(np.ones(2, np.float32))"),
    ("redefined", "Two parameters have one name.",
     "a builder that is asked twice for a parameter called x"),
    ("scan-length", "A scan has neither something to scan nor a length, or they differ.",
     ">>> dd.trace(dd.f32[2])(lambda x: dd.scan(lambda s: (s, s), x, []))"),
    ("traced-branch", "Python branches on the value of a tensor, which is not known while a "
     "program is traced.",
     ">>> dd.trace(dd.f32[2])(lambda x: x if dd.any(x > 0) else -x)"),
    ("type-mismatch", "A traced function returns something else than its annotation says.",
     "a function annotated `-> dd.f32[3]` that returns an f32[2]"),
    ("unannotated", "A parameter of a traced function has no type.",
     ">>> dd.trace(lambda x: x)"),
)  # fmt: skip

_TYPES = _table(
    ("bad-dim", "A size is an expression of another kind than the language of sizes has.",
     "the size sin(n): only + * // % min max over symbols and integers are sizes"),
    ("device-mismatch", "The operands of an op are on several devices.",
     "add of an f32[2] and an f32[2]@cuda:1"),
    ("device-unsupported", "A value of a program is on a device that the engine or target lacks.",
     'dd.compile of x.to("cuda:1") for engine ptx, which has one device'),
    ("wrong-device", "A kernel is given memory of another device than the one that works.",
     "a module in which a guard (`with engine.on(...)`) was taken away by hand"),
    ("dim-mismatch", "Two sizes that should be equal are not.",
     ">>> dd.interpret(dd.trace(dd.f32[2])(lambda x: -x), np.ones(3, np.float32))"),
    ("dim-out-of-range", "A symbolic size has a value outside its declared range.",
     '>>> dd.interpret(dd.trace(dd.f32[dd.dim("n", 1, 4)])(lambda x: -x), np.ones(9, np.float32))'),
    ("dtype-mismatch", "An operand has a dtype that the op does not take there.",
     ">>> dd.trace(dd.f32[2])(lambda x: dd.bitwise_and(x, x))"),
    ("fractional-dim", "A size has a value that is no integer.",
     "the size n / 2 where n is 3"),
    ("rank-mismatch", "A tensor or array has another number of axes than is wanted.",
     ">>> dd.interpret(dd.trace(dd.f32[2])(lambda x: -x), np.ones((2, 1), np.float32))"),
    ("shape-mismatch", "The shapes of operands do not fit together.",
     ">>> dd.trace(dd.f32[2, 3], dd.f32[4])(lambda x, y: x + y)"),
    ("unbound-dim", "A symbolic size has no value, as no input's shape gives it one.",
     "an input of shape [n * m]: neither n nor m follows from its size"),
)  # fmt: skip

_RUNS = _table(
    ("assertion", "Two sizes that a program needs to be equal are not, for these inputs.",
     "a reshape of [n, m] to [k] where k is not n * m"),
    ("buffer-count", "A kernel is launched with another number of buffers than it takes.",
     "a launch of a kernel of three buffers with two"),
    ("buffer-too-small", "A buffer has fewer bytes than the kernel launched with it needs.",
     "a buffer of 8 bytes for an f32[4]"),
    ("complex-input", "A complex array is given for a parameter that is no pair of reals of its "
     "precision.",
     ">>> dd.interpret(dd.trace(dd.f64[3, 2])(lambda x: -x), np.ones(3, np.complex64))"),
    ("complex-output", "An array that is no row of pairs is read as complex.",
     ">>> dd.as_complex(np.ones(3, np.float32))"),
    ("device-lost", "A kernel has failed on the GPU so that CUDA refuses all later work of the "
     "process.",
     "a kernel given as text that writes outside its buffers, on engine cuda"),
    ("extern-result", "An implementation of an external function returns other arrays than the "
     "function's results.",
     "an implementation of `func @gemm(...) -> (%y)` that returns float64 where %y is f32"),
    ("input-count", "A program is called with another number of inputs than it takes.",
     ">>> dd.interpret(dd.trace(dd.f32[2])(lambda x: -x))"),
    ("input-alignment", "A call of a built program that is strict was given an array that begins "
     "where kernels cannot read several elements at once; else it would be copied.",
     "module.call([np.zeros(9, np.float32)[1:]], strict=True)"),
    ("input-device", "A call of a built program that is strict was given an array on a GPU; the "
     "program runs on the CPU.",
     "module.call([torch.zeros(8, device='cuda')], strict=True)"),
    ("input-strides", "A call of a built program that is strict was given an array that is not in "
     "row-major order; else it would be copied.",
     "module.call([np.zeros((3, 4), np.float32).T], strict=True)"),
    ("input-dtype", "An input has another dtype than its parameter.",
     ">>> dd.interpret(dd.trace(dd.f32[2])(lambda x: -x), np.ones(2, np.float64))"),
    ("bad-ptx", "A text of PTX cannot be read.",
     "$ didyma sanitize k.ptx, where k.ptx names a register that it does not declare"),
    ("bad-spec", "A specification of a kernel names no program, or its Python file fails.",
     "$ didyma judge k.cu --spec specs.py::g, where specs.py has no g"),
    ("spec-mismatch", "The parameters of a kernel and the inputs and outputs of its specification "
     "do not fit each other.",
     "$ didyma judge k.cu --spec add.dym, where k.cu takes one pointer and add.dym two inputs"),
    ("bad-certificate", "A certificate of a kernel was edited, or is a file of another kind.",
     "$ didyma judge --check k.json, where a word of k.json was changed"),
    ("stale-certificate", "A certificate was written for another text of its kernel or "
     "specification.",
     "$ didyma judge --check k.json, where the kernel was changed since"),
    ("unknown-instruction", "A kernel has an instruction of PTX that engine ptx does not run.",
     "$ didyma sanitize k.cu, where k.cu reads a texture"),
    ("kernel-text", "The text of a kernel is not accepted by the compiler of an engine.",
     "a kernel that calls a function which the prelude does not have"),
    ("launch-failed", "A GPU has no room for a launch, or its driver refuses a call.",
     "a kernel given as text whose blocks have 2048 threads, on engine cuda"),
    ("not-a-program", "Something is given as a program that is none.",
     ">>> dd.compile(np.sin)"),
    ("output-count", "A result is compared with another number of arrays than the program has.",
     "truth.compare((y, z)) of a program with one result"),
    ("unknown-input", "An input is given by a name that the program does not have.",
     "dd.check(program, inputs={'typo': x})"),
    ("not-an-array", "An input of a generated wrapper is no NumPy array.",
     "call(engine, [[1.0, 2.0]])"),
    ("not-contiguous", "An array on the device is not in row-major order.",
     "exe(x.T) of a CuPy array x, on engine host"),
    ("too-large", "The values of a program do not fit in memory.",
     "$ didyma check MODEL.onnx --dim n=1000000000"),
    ("worker-missing", "No process of a campaign could be started: the machine is overloaded.",
     "$ didyma fuzz --jobs 500"),
    ("unknown-kernel", "A kernel is launched that the loaded text does not have.",
     "a launch of `exp_1` of a text with the one kernel `exp_0`"),
    ("unknown-routine", "A program calls a library routine that its caller did not pass.",
     "a generated module with a line `rt.routine(externs, ...)`, called without `externs`"),
    ("hash-mismatch", "A file beside a generated module is not the one that it was built with.",
     "a module.py beside the kernels of an older build"),
    ("file-missing", "A file that a generated module needs is not beside it.",
     "a module.py that was moved without its kernels"),
    ("kernel-fault", "A check in a kernel of a generated module failed: a bug in its text.",
     "a kernel given as text that writes beyond its shared memory"),
    ("dtype-missing", "A generated module reads or returns elements of less than a byte, which "
     "NumPy has only once ml_dtypes has been imported.",
     "module.call([x]) of a module that returns an array of i4"),
    ("artifact-damaged", "A file of a built program is not as it was written.",
     "didyma artifact check DIR of a folder in which one byte of one file was changed"),
    ("artifact-elsewhere", "A built program has no machine code for this kind of machine.",
     "didyma run DIR on an ARM processor, of a folder that was built on another"),
    ("artifact-extern", "A program that is to stand alone calls external functions of which it has "
     "no implementation that it can take along.",
     "didyma build of a graph with a function marked `Compiler`, for which nothing is registered"),
    ("artifact-newer", "A built program has a format that this version of Didyma does not know.",
     "didyma artifact check DIR of a folder that a later version built"),
    ("not-an-artifact", "A folder has no manifest of a built program.",
     "$ didyma artifact check ."),
)  # fmt: skip

_CHOICES = _table(
    ("bad-choice", "A choice is no text of a schedule, or not one of the schedules of the function "
     "that it is for.",
     "a choice `row(lanes=3)`, where the number of lanes is a power of two"),
    ("bad-engine", "An object given as an engine lacks what engines offer.",
     ">>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), engine=3)"),
    ("bad-kernel", "A kernel given as text is not in the subset of CUDA C, or does not take the "
     "buffers of the function that it is for.",
     "a text that calls `expf`, which no prelude implements: the intrinsic is exp_f32"),
    ("bad-option", "An option of a command or call has a value that it does not take.",
     "$ didyma plan MODEL.dym --dim n"),
    ("bad-part", "An object given as a recipe, template, codegen, routine, intrinsic or external "
     "function is none, or is registered under a name that options cannot give.",
     ">>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), "
     "options=dd.Options(kernels=dd.KernelOptions(recipes=(3,))))"),
    ("bad-pass", "An object given as a graph pass is no function from a module to a module.",
     ">>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), "
     "options=dd.Options(graph=dd.GraphOptions(passes=(3,))))"),
    ("bad-peer", "An object given as a peer lacks what peers offer.",
     ">>> dd.check(dd.trace(dd.f32[2])(lambda x: -x), peers=[3])"),
    ("bad-planner", "An object given as a planner lacks what planners offer.",
     ">>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), planner=3)"),
    ("bad-planner-option", "An option of a memory planner is out of range.",
     "a planner of symbolic sizes that may try no order"),
    ("bad-reference", "The reference of a kernel of one's own has other operands or results than "
     "the kernel, or computes more than one kernel can.",
     "a reference of one parameter, for a kernel of two operands"),
    ("bad-template", "The text of a template cannot be rendered, or calls a hook wrongly, twice or "
     "never.",
     "a template that calls `store_output` on two lines"),
    ("broken-plugin", "A package registers an engine, a planner or another part that cannot be "
     "loaded or made.",
     "an entry point `didyma.engines` that names a module which is not there"),
    ("engine-missing", "The engine asked for lacks something on this machine.",
     "$ didyma check MODEL.dym --engine cuda"),
    ("failed-part", "A function of a recipe, a template, a codegen, a routine, a planner or a "
     "chooser of one's own raises an exception, or returns something that it may not.",
     "a recipe whose `fit` returns 3"),
    ("extra-missing", "A package is not installed that this use of Didyma needs.",
     "$ didyma check MODEL.onnx"),
    ("registered-twice", "A part is registered under a name that another part of its kind has.",
     '>>> dd.register("engines", "simt", object())'),
    ("unknown-domain", "There is no domain of campaigns of that name.",
     "$ didyma fuzz --domain kernels"),
    ("unknown-engine", "There is no engine of that name.",
     '>>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), engine="hots")'),
    ("unknown-extern", "An implementation is given for something that is no external function of "
     "the program.",
     '>>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), externs={"gemm": np.matmul})'),
    ("unknown-level", "There is no level of that name to run ONNX models at.",
     "backend_for('rtl')"),
    ("unknown-op", "There is no op or function of that name.",
     "$ didyma ops maximun"),
    ("unknown-option", "A choice of the compiler is named by a path that it does not have.",
     '>>> dd.Options().changed({"kernels.blocks": 64})'),
    ("unknown-part", "There is no recipe, template, codegen, routine or intrinsic of that name, "
     "or no such kind of parts.",
     ">>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), "
     'options=dd.Options(kernels=dd.KernelOptions(codegens=("gemm",))))'),
    ("unknown-pass", "There is no graph pass of that name.",
     '>>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), options=dd.Options(graph=dd.GraphOptions('
     'disabled=("fold",))))'),
    ("unknown-peer", "There is no peer, another implementation to judge, of that name.",
     "$ didyma check MODEL.dym --peer onnxrt"),
    ("unknown-planner", "There is no memory planner of that name.",
     '>>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), planner="best")'),
    ("unknown-primitive", "A kernel is given for something that is no Primitive function of the "
     "program.",
     '>>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), kernels={"softmax": '
     'dd.TextKernel("", (), (), (1, 1, 1), (1, 1, 1))})'),
    ("unknown-target", "There is no target of that name.",
     '>>> dd.Options(target="sm_10")'),
    ("wrong-target", "A program is compiled for a target that the engine neither has nor imitates.",
     "$ didyma check MODEL.dym --engine cuda --option target=sm_90a, on an older GPU"),
    ("unknown-stage", "There is no stage of that name that these options run.",
     "compile(module, until='lowr')"),
)  # fmt: skip

_CACHE = _table(
    ("corrupt-cache", "The cache of measured choices is damaged, or a file of something else.",
     "a file `choices.sqlite` that was cut off; it is never deleted unless the user asks for that"),
    ("newer-cache", "The cache of measured choices was written by a later version of Didyma.",
     "a file `choices.sqlite` whose tables have a later version"),
    ("not-finite", "A kernel wrote a NaN or an infinity, and the option kernels.finite, or of "
     "a built program the argument finite, makes that an error.",
     ">>> o = dd.Options(kernels=dd.KernelOptions(variants=2, force=\"0\", finite=True))\n"
     ">>> log = dd.compile(dd.trace(dd.f32[64])(dd.log), options=o)\n"
     ">>> log(np.zeros(64, np.float32))"),
    ("unknown-variant", "The option kernels.force names no variant of any kernel of the program.",
     ">>> o = dd.Options(kernels=dd.KernelOptions(variants=2, force=\"row\"))\n"
     ">>> dd.compile(dd.trace(dd.f32[64])(lambda x: -x), options=o)"),
    ("no-valid-choices", "No schedule of a function is right, or in time; the error says why.",
     "didyma tune on an engine that computes everything wrong"),
)  # fmt: skip

_FILES = _table(
    ("bad-corpus", "A file of a corpus of cases does not say why it is there.",
     "$ didyma corpus replay, where a file was copied into the corpus by hand"),
    ("newer-format", "A finding, a case of a corpus or a record of options was written by a later "
     "version of Didyma, in a format that this one cannot read.",
     "$ didyma replay FINDING.dym, where FINDING.dym has a later format"),
    ("no-buffers", "A trace or program has nothing to place in memory.",
     "$ didyma plan EMPTY.csv"),
    ("not-a-finding", "A file is not one that a campaign or `check --save` wrote.",
     "$ didyma replay MODEL.dym"),
    ("not-a-record", "A file is not a record of benchmarks, in the format of pytest-benchmark.",
     "$ didyma bench compare MODEL.dym MODEL.dym"),
    ("parse", "A text is not of the language; the message shows the place.",
     "the text `module { func @f(%x: f32[2]) -> (%x) }`, which lacks a body in braces"),
    ("unknown-code", "An argument of explain is neither a file nor an error code.",
     "$ didyma explain G-arty"),
    ("unknown-format", "The suffix of a file is none that the command reads or writes.",
     "$ didyma check MODEL.txt"),
    ("unreadable-file", "A file cannot be read, or is not of the format that it should have.",
     "$ didyma check NO-SUCH-FILE.dym"),
    ("unwritable", "A file or folder cannot be written, or the folder around it does not exist.",
     "$ didyma explain MODEL.dym --out no/such/folder"),
)  # fmt: skip

_ONNX = _table(
    ("onnx-broken", "An ONNX model breaks a rule of ONNX.",
     "a model in which a node reads a value that nothing defines"),
    ("onnx-control", "A loop or branch of an ONNX model cannot be expressed.",
     "a Loop whose condition never becomes false"),
    ("onnx-external-data", "The external data of an ONNX model is missing, or outside its folder.",
     "a tensor whose location is `../secrets`"),
    ("onnx-inexpressible", "A program has something that ONNX cannot say.",
     "$ didyma export RANDOM-BITS.dym"),
    ("onnx-mismatch", "An ONNX model declares a type that its nodes do not yield.",
     "a result declared f32[2, 4] that is an f32[2, 3]"),
    ("onnx-not-constant", "The import of an ONNX model needs a value that depends on an input.",
     "an input `axes` of ReduceSum that is an input of the model"),
    ("onnx-too-large", "A tensor of an ONNX model has more bytes than can be read.",
     "an initializer of shape [1048576, 1048576]"),
    ("onnx-unsupported", "An ONNX model uses an operator, dtype or attribute that is not imported.",
     "an operator of the domain com.microsoft"),
    ("peer-refused", "Another implementation refuses the model that it should be compared on.",
     "$ didyma check MODEL.onnx --peer onnxruntime"),
)  # fmt: skip

_MEMORY = _table(
    ("bad-alignment", "The alignment of a buffer is no power of two, or too large.",
     "a line `a,0,3,64,3` of a trace with the columns id,lower,upper,size,alignment"),
    ("bad-capacity", "A capacity is negative.",
     ">>> dd.Options(memory=dd.MemoryOptions(capacity=-1))"),
    ("bad-life", "A buffer of a trace ends before it begins.",
     "a line `a,3,1,64` of a trace"),
    ("bad-number", "A cell of a trace is no whole number, or too large.",
     "a line `a,0,three,64` of a trace"),
    ("bad-offset", "The fixed offset of a buffer is negative, too large or not aligned.",
     "an offset of 100 for a buffer of alignment 64"),
    ("bad-size", "The size of a buffer is negative or too large.",
     "a line `a,0,3,-64` of a trace"),
    ("bad-trace", "A trace is no table of comma-separated values with the columns it needs.",
     "a trace without the column `size`"),
    ("buffer-twice", "Two buffers of a plan have one name.",
     "two buffers called a, of symbolic sizes"),
    ("duplicate-buffer", "Two lines of a trace have one id.",
     "a trace with two lines that begin with `a,`"),
    ("fixed-overlap", "Two buffers that are alive together overlap at their fixed offsets.",
     "a and b at offset 0, both alive from 0 to 3"),
    ("inverted-lifetime", "A buffer of a plan ends before it begins.",
     "a buffer alive from 4 to 2"),
    ("negative-size", "The size of a buffer is not proved to be at least 0.",
     "a buffer of n - 4 bytes where n is at least 1"),
    ("over-capacity", "The buffers do not fit in the capacity given.",
     "$ didyma plan TRACE.csv --capacity 16"),
    ("search-limit", "A planner found neither a placement within the capacity nor a proof that "
     "there is none in its time.",
     "$ didyma plan TRACE.csv --planner canonical --capacity N --seconds 1"),
)  # fmt: skip

_SCHEDULES = _table(
    ("bad-step", "A step of a schedule cannot be taken here, whatever the accesses are.",
     "split i by 0"),
    ("dependence", "A step of a schedule would change the order of two accesses to one element; "
     "the error names them, and the loop whose iterations they are in.",
     "reorder j, i of a loop nest that stores a[i + 1, j] = a[i, j + 1]"),
    ("indivisible", "A split that must come out even does not, for some sizes.",
     "split i by 8 divisible, where i runs to n"),
    ("name-taken", "A step of a schedule gives a name that the function uses already.",
     "split i by 8 into a, b, where a is a buffer"),
    ("no-such-loop", "A step names a loop that the function has not, or not any more: the error "
     "says which step replaced it.",
     "split i by 8, then split i by 4"),
    ("no-region", "The part of a buffer that an iteration of a loop touches is no box of constant "
     "size.",
     "stage a at i, where the loop runs over all n elements of a"),
    ("no-such-value", "A step names a variable or a buffer that the function does not make.",
     "inline x, where nothing is called x"),
    ("not-a-fold", "A step needs a loop that updates one buffer by an operation whose terms may "
     "come in any order, but for rounding.",
     "rfactor acc over k, where acc[] = acc[] - a[k]"),
    ("not-nested", "A step needs loops that stand directly in one another, or follow one another.",
     "fuse i, j, where another statement stands between"),
    ("several-functions", "A text of loops holds several functions where one is wanted.",
     "two `primfunc` one after another"),
    ("target-lacks", "A step or a statement needs what the target has not.",
     "stage a at k in cluster, for the portable target"),
    ("unknown-function", "A schedule is for another function than it is given to.",
     ">>> dd.compile(dd.trace(dd.f32[2])(lambda x: -x), schedules={'f': 'schedule @f {}'})"),
    ("unknown-step", "A schedule has a step of no known kind; the error lists those there are.",
     "slice i by 8"),
)  # fmt: skip

CODES: Mapping[str, Meaning] = {
    **_PYTHON, **_SCHEDULES, **_TYPES, **_RUNS, **_CHOICES, **_CACHE, **_FILES, **_ONNX, **_MEMORY,
}  # fmt: skip
