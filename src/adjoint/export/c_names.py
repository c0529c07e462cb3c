"""Names that exported C must not give to its functions and parameters: words of C, of its library, and of the file itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core.errors import ArgumentError
from .program import Part
from .spelling import OWN_NAMES, renamed, words

#: Keywords of C and of C++, where the header is included too, names that the code uses, and macros that a program may have.
_KEYWORDS = words(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false asm
    typeof and or not xor new delete class template this throw try catch private public protected virtual operator using
    namespace explicit export friend mutable typename and_eq bitand bitor compl not_eq or_eq xor_eq alignas alignof
    const_cast constexpr decltype dynamic_cast noexcept nullptr reinterpret_cast static_assert static_cast thread_local typeid
    char8_t char16_t char32_t wchar_t concept consteval constinit requires co_await co_return co_yield
    work ptrdiff_t size_t main
    NULL NAN INFINITY HUGE_VAL EOF I complex imaginary errno stdin stdout stderr assert unix linux
    """
)
#: Functions and macros of <math.h>, each with an f and an l at its end too.
_MATH = words(
    """
    acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ilogb ldexp log log10 log1p log2
    logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor nearbyint rint lrint llrint round
    lround llround trunc fmod remainder remquo copysign nan nextafter nexttoward fdim fmax fmin fma
    j0 j1 jn y0 y1 yn gamma scalb drem significand finite
    cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog conj cpow cproj creal csin csinh csqrt ctan
    ctanh
    """
)
#: What the other headers of C99 declare: a program that defines such a name replaces the library's.
_OTHERS = words(
    """
    signbit isnan isinf isfinite isnormal fpclassify isgreater isgreaterequal isless islessequal islessgreater
    isunordered index offsetof
    abort abs atexit atof atoi atol atoll bsearch calloc div exit free getenv labs ldiv llabs lldiv malloc mblen mbstowcs
    mbtowc qsort rand realloc srand strtod strtof strtol strtold strtoll strtoul strtoull system wcstombs wctomb
    clearerr fclose feof ferror fflush fgetc fgetpos fgets fopen fprintf fputc fputs fread freopen fscanf fseek fsetpos ftell
    fwrite getc getchar gets perror printf putc putchar puts remove rename rewind scanf setbuf setvbuf snprintf sprintf sscanf
    tmpfile tmpnam ungetc vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf
    memchr memcmp memcpy memmove memset strcat strchr strcmp strcoll strcpy strcspn strerror strlen strncat strncmp strncpy
    strpbrk strrchr strspn strstr strtok strxfrm
    asctime clock ctime difftime gmtime localtime mktime strftime time localeconv setlocale longjmp setjmp raise signal
    isalnum isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit tolower toupper
    feclearexcept fegetenv fegetexceptflag fegetround feholdexcept feraiseexcept fesetenv fesetexceptflag fesetround
    fetestexcept feupdateenv imaxabs imaxdiv strtoimax strtoumax wcstoimax wcstoumax
    btowc fgetwc fgetws fputwc fputws fwide fwprintf fwscanf getwc getwchar mbrlen mbrtowc mbsinit mbsrtowcs putwc putwchar
    swprintf swscanf ungetwc vfwprintf vfwscanf vswprintf vswscanf vwprintf vwscanf wcrtomb wcscat wcschr wcscmp wcscoll
    wcscpy wcscspn wcsftime wcslen wcsncat wcsncmp wcsncpy wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstok
    wcstol wcstold wcstoll wcstoul wcstoull wcsxfrm wctob wmemchr wmemcmp wmemcpy wmemmove wmemset wprintf wscanf
    iswalnum iswalpha iswblank iswcntrl iswctype iswdigit iswgraph iswlower iswprint iswpunct iswspace iswupper iswxdigit
    towctrans towlower towupper wctrans wctype
    """
)
LIBRARY = frozenset(f"{name}{f}" for name in _MATH for f in ("", "f", "l")) | _OTHERS
#: Names that the file itself uses: variables, functions, constants.
_MACROS = r"MULADDF?|(ADD|CLEAR|LOAD|STORE)_ROW|ROW_AT|((EACH|IN)_)?PIECE|ADJOINT_\w*"
_OWN = re.compile(rf"(adjoint_\w*|{OWN_NAMES}|multiply|two_over_pi|{_MACROS}|(to|from)_word\d+|u?int\d+_t|M_[A-Z0-9_]+)")


def names_of(part: Part) -> list[str]:
    """The names of a function's parameters: arguments, then results. One that is taken has an underscore at its end."""
    names = (*part.graph.input_names, *part.output_names)
    return renamed(names, lambda name: name in _KEYWORDS or _OWN.fullmatch(name))


def check_names(made: Sequence[Part], exporter: str) -> None:
    """Refuse functions whose names mean something else in C: callers go by the name, so that it is not changed here."""
    for part in made:
        if part.name in _KEYWORDS or part.name in LIBRARY or _OWN.fullmatch(part.name):
            raise ArgumentError(
                f"{exporter} cannot name a function {part.name!r}, which C or the file itself uses; give another name="
            )


__all__ = ["LIBRARY", "check_names", "names_of"]
