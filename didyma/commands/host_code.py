"""What the code of the host in a kernel's file tells: numbers, buffers, and launches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword

from didyma.judging.expressions import evaluate, split
from didyma.judging.heads import closing, declared
from didyma.refimpl.errors import DidymaError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INTEGER = r"(?:unsigned\s+int|unsigned|u?int\d*(?:_t)?|size_t|(?:long\s+)?long|auto)"
_CONSTANT = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n\\]+)$"
    rf"|\b((?:const|constexpr)\s+(?:static\s+)?)?{_INTEGER}\s+(\w+\s*=\s*[^;{{}}]+);"
    r"|\b(enum\b)[^{};()]*\{([^{}]*)\}",
    re.MULTILINE,
)
_LAUNCH = re.compile(r"\b(\w+\s*(?:<[^<>;]*>)?)\s*<<<(.*?)>>>\s*\(", re.DOTALL)
_WORD = re.compile(r"(?<![\w:])[A-Za-z_]\w*(?!\w|::)")
_TYPE_PARAMETER = re.compile(r"\b(?:typename|class)\s+(\w+)\s*[,>=]")
_ELEMENT = re.compile(r"\bsizeof\s*\(\s*(?:\*\s*(\w+)|(\w+)\s*\[\s*0\s*\])\s*\)")
_CONDITION = re.compile(r"\bif\s*\(([^{};]*?)\)\s*(?=[\w{])")
_IF = re.compile(r"\bif\s*\(([^{};()]*)\)\s*\{?\s*$")
_ELSE = re.compile(r"\belse\s*\{?\s*$")
_BY_CALL = re.compile(r"\bcudaLaunch(?:Cooperative)?Kernel\s*\(")
_PASSED = r"\bvoid\s*\*\s*(?:const\s*)?{name}\s*\[[^\[\]]*\]\s*=\s*\{{([^{{}}]*)\}}"
_QUOTIENT = re.compile(r"\b\w*(?:div_?up|div_?round_?up|ceil_?div|div_?ceil)\s*\(", re.IGNORECASE)
_MALLOC = re.compile(r"\bcudaMalloc(?:Managed|Async)?\s*\(")
_MEMSET = re.compile(r"\bcudaMemset(?:Async)?\s*\(")
_CAST = re.compile(r"^\(\s*[\w\s:]+[*&\s]*\)\s*(?=[\w&(])|\bstatic_cast\s*<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Call:
    """A launch as it is written: the kernel with its template's arguments, extents, arguments.

    ``at`` is where it begins in the text.
    """

    kernel: str
    extents: tuple[str, ...]
    arguments: tuple[str, ...]
    at: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of the device: its bytes, and whether zeros are written to it before any launch."""

    nbytes: int
    zero: bool


def bare(text: str) -> str:
    """Return a text without its comments."""
    return _COMMENT.sub(" ", text)


def calls(text: str) -> Iterator[Call]:
    """Yield the launches in a text without comments.

    >>> next(calls("int main() { scan<int><<<2, T, T * 4>>>(x, 7); }"))
    Call(kernel='scan<int>', extents=('2', 'T', 'T * 4'), arguments=('x', '7'))
    >>> next(calls("void* a[] = {&x, &n}; cudaLaunchKernel((void*)scan, 2, 64, a, 0, 0);"))
    Call(kernel='scan', extents=('2', '64', '0'), arguments=('x', 'n'))
    """
    for m in _LAUNCH.finditer(text):
        inner = text[m.end() : closing(text, m.end() - 1)]
        given = tuple(p for p in split(inner) if p)
        yield Call(re.sub(r"\s+(?=<)", "", m[1].strip()), tuple(split(m[2])), given, m.start())
    for m in _BY_CALL.finditer(text):
        row = split(text[m.end() : closing(text, m.end() - 1)])
        match [_CAST.sub("", p).lstrip("&") for p in row]:
            case [kernel, grid, block, arguments, *shared]:
                array = re.search(_PASSED.format(name=re.escape(arguments)), text)
                passed = [_CAST.sub("", p).lstrip("&") for p in split(array[1] if array else "")]
                extents = (grid, block, *shared[:1])
                yield Call(kernel, extents, tuple(filter(None, passed)), m.start())
            case _:
                pass


def calls_of(text: str, name: str, known: Mapping[str, int]) -> list[Call]:
    """Return the launches of a kernel; of an instance of a template its own, if it has any.

    >>> text = "f<1><<<2, 32>>>(x); f<2><<<2, 64>>>(x);"
    >>> [c.extents for c in calls_of(text, "f<2>", {})]
    [('2', '64')]
    """
    of = [c for c in calls(text) if plain(c.kernel) == plain(name)]
    wanted = name.replace(" ", "")
    own = [c for c in of if typed(text, instance(c, known)).replace(" ", "") == wanted]
    return own or of


def is_reached(text: str, call: Call, known: Mapping[str, int]) -> bool:
    """Return whether no condition right before a launch is known to leave it out.

    >>> text = "if (b == 16) f<16><<<1, b>>>(x); else f<32><<<1, b>>>(x);"
    >>> [is_reached(text, c, {"b": 16}) for c in calls(text)]
    [True, False]
    """
    before = text[: call.at]
    if m := _IF.search(before):
        return number(m[1], known) is not False
    conditions = _CONDITION.findall(before) if _ELSE.search(before) else []
    return not conditions or number(conditions[-1], known) is not True


def instance(call: Call, known: Mapping[str, int]) -> str:
    """Return the kernel of a launch, with numbers for the constants that its template is given.

    >>> instance(Call("scan<int, T, m::B>", (), ()), {"T": 128, "B": 7})
    'scan<int, 128, m::B>'
    """
    name, bracket, given = call.kernel.partition("<")
    return name + bracket + _WORD.sub(lambda m: str(known.get(m[0], m[0])), given)


def typed(text: str, kernel: str) -> str:
    """Return an instance of a template in which ``float`` stands for types that callers choose.

    >>> typed("template <class T> void run(T* x) { f<T, 4><<<1, 32>>>(x); }", "f<T, 4>")
    'f<float, 4>'
    """
    chosen = {"scalar_t", *_TYPE_PARAMETER.findall(text)}
    name, bracket, given = kernel.partition("<")
    return name + bracket + _WORD.sub(lambda m: "float" if m[0] in chosen else m[0], given)


def plain(name: str) -> str:
    """Return the name of a function without scopes and what its template is given."""
    return re.split(r"[<(]", name)[0].split("::")[-1].strip()


def constants(text: str) -> dict[str, int]:
    """Return the names that stand for whole numbers above zero, all through a text.

    A variable is one if the text sets it once.

    >>> constants("const int T = 64, U = 2; int n = 10 * T, m = U; int i = 1; i++;")
    {'T': 64, 'U': 2, 'n': 640, 'm': 2}
    >>> constants("int n = 8; void *args[] = {&n}; int m = 9; read(&m);")
    {'n': 8}
    >>> constants("enum Size { T = 64, U = 2 * T };")
    {'T': 64, 'U': 128}
    """
    found: dict[str, int] = {}
    for m in _CONSTANT.finditer(text):
        rows = [(m[1], m[2])] if m[1] else [_declared(d) for d in split(m[4] or m[6])]
        for name, value in rows:
            number = whole(value, found) if value else None
            fixed = m[1] or m[3] or m[5]
            if number is not None and number > 0 and (fixed or _is_set_once(text, name)):
                found.setdefault(name, number)
    return found


def _declared(text: str) -> tuple[str, str]:
    """Return the name and the value of one of the variables that a declaration has."""
    name, _, value = text.partition("=")
    return name.strip(), value


def _is_set_once(text: str, name: str) -> bool:
    text = re.sub(_PASSED.format(name=r"\w+"), " ", text)  # addresses of what kernels get
    assigned = rf"\b{name}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)"
    counted = rf"(?:\+\+|--|&)\s*{name}\b|\b{name}\s*(?:\+\+|--)"
    return len(re.findall(f"{assigned}|{counted}", text)) == 1


def number(text: str, known: Mapping[str, int]) -> int | float | None:
    """Return the value of an expression of C; None where it is not known.

    >>> number("(n + 255) / 256 * sizeof(float)", {"n": 1000}), number("2.5f", {})
    (16, 2.5)
    >>> number("in / 16 + CEIL_DIV(in, 5)", {"in": 64})
    17
    """
    known = {_in_python(n): value for n, value in known.items()}
    text = _QUOTIENT.sub("cdiv(", text)
    bytes_of = re.sub(r"\bsizeof\s*\(([^()]*)\)", lambda m: _sizeof(m[1]), text.strip())
    plainer = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", _CAST.sub("", bytes_of))
    try:
        unmarked = re.sub(r"(\d\.\d*)[fF]\b", r"\1", plainer)
        return evaluate(re.sub(r"[A-Za-z_]\w*", lambda m: _in_python(m[0]), unmarked), known, "")
    except DidymaError:
        return None


def _in_python(name: str) -> str:
    """Return a name of C as an expression of Python may have it, which has words of its own."""
    return f"{name}_" if iskeyword(name) else name


def _sizeof(kind: str) -> str:
    p = declared(f"{kind} x")
    return "8" if p.pointer else str(p.dtype.nbytes) if p.dtype else "unknown"


def whole(text: str, known: Mapping[str, int]) -> int | None:
    """Return the value of an expression of C that is a whole number; None of any other."""
    value = number(text, known)
    return int(value) if value is not None and value == int(value) else None


def buffers(text: str, known: Mapping[str, int]) -> dict[str, Buffer]:
    """Return the memory that a text allocates on the device, by the names of its pointers.

    >>> buffers("cudaMalloc((void**)&x, 9 * sizeof(int)); cudaMemset(x, 0, 36);", {})
    {'x': Buffer(nbytes=36, zero=True)}
    >>> buffers("double *x, *y; cudaMalloc(&y, 9 * sizeof(*y));", {})
    {'y': Buffer(nbytes=72, zero=False)}
    """
    zeros = {variable(a[0]) for a in _arguments(_MEMSET, text) if len(a) > 2 and a[1] == "0"}
    found: dict[str, Buffer] = {}
    for a in _arguments(_MALLOC, text):
        size = _ELEMENT.sub(lambda m: f"sizeof({_pointed(text, m[1] or m[2])})", (*a, "")[1])
        name, nbytes = variable(a[0]), whole(size, known)
        if name and nbytes is not None and nbytes > 0:
            found.setdefault(name, Buffer(nbytes, name in zeros))
    return found


def _pointed(text: str, name: str) -> str:
    """Return the type that a pointer's declaration has; empty where none is found."""
    m = re.search(rf"\b(\w+)\s*\*\s*(?:\w+\s*,\s*\*\s*)*{name}\b", text)
    return m[1] if m else ""


def _arguments(of: re.Pattern[str], text: str) -> Iterator[list[str]]:
    for m in of.finditer(text):
        yield split(text[m.end() : closing(text, m.end() - 1)])


def variable(text: str) -> str:
    """Return the name of the variable that an argument is or points to; empty for others.

    >>> variable("(void**)&x"), variable("x"), variable("x + 4")
    ('x', 'x', '')
    """
    m = re.fullmatch(r"(?:\([\w\s*]*\)|reinterpret_cast<[\w\s*]*>)?\s*\(?\s*&?\s*(\w+)\s*\)?", text)
    return m[1] if m and not m[1].isdecimal() else ""
