"""Words that C and C++ reserve: no name in loop programs or kernel text may be one."""

from __future__ import annotations

C_KEYWORDS = (
    "auto break case char const continue default do double else enum extern float for goto if"
    " inline int long register restrict return short signed sizeof static struct switch typedef"
    " union unsigned void volatile while"
)
CPP_KEYWORDS = (
    "alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t char8_t class compl"
    " concept const_cast consteval constexpr constinit decltype delete dynamic_cast explicit"
    " export false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq"
    " private protected public reinterpret_cast requires static_assert static_cast template this"
    " thread_local throw true try typeid typename using virtual wchar_t xor xor_eq"
)
KEYWORDS = frozenset((*C_KEYWORDS.split(), *CPP_KEYWORDS.split()))
