"""What programs write to a terminal, and what only an enemy would: pieces for hypothesis."""

from hypothesis import strategies as st

NUMBERS = st.sampled_from(["", "0", "1", "2", "3", "5", "8", "24", "25", "80", "999999999999", "00000000001", "²", "٣"])
PARAMETERS = st.builds(
    lambda prefix, numbers: prefix + ";".join(numbers),
    st.sampled_from(["", "", "", "?", ">", "<", "=", ":"]),
    st.lists(NUMBERS, max_size=5),
)
MODES = st.sampled_from([1, 3, 4, 5, 6, 7, 20, 25, 47, 1000, 1047, 1048, 1049, 2004])
SEQUENCES = st.builds(
    lambda opening, parameters, between, final: opening + parameters + between + final,
    st.sampled_from(["\x1b[", "\x1b[", "\x9b"]),
    PARAMETERS,
    st.sampled_from(["", "", "", "", "!", " ", "$", "#"]),
    st.characters(min_codepoint=0x40, max_codepoint=0x7E),
)
SWITCHES = st.builds(
    lambda private, mode, final: f"\x1b[{private}{mode}{final}",
    st.sampled_from(["", "?"]),
    MODES,
    st.sampled_from("hl"),
)
STYLES = st.sampled_from(
    ["\x1b[m", "\x1b[0m", "\x1b[1;31m", "\x1b[38;5;200;4m", "\x1b[48;2;1;2;3m", "\x1b[38:2::9:8:7m", "\x1b[4:3m",
     "\x1b[38;5m", "\x1b[>4;2m", "\x1b[7;9m", "\x1b[97;107m", "\x1b[K", "\x1b[2K", "\x1b[?25l", "\x1b[?25h", "\x1b(B"]
)  # fmt: skip
ESCAPES = st.sampled_from(
    ["\x1bc", "\x1bD", "\x1bE", "\x1bM", "\x1bH", "\x1b7", "\x1b8", "\x1b(0", "\x1b(A", "\x1b)0", "\x1b#8", "\x1b%G",
     "\x0e", "\x0f", "\x1b]0;longer title\x07", "\x1b]2;evil\x1b[31m\x1b\\", "\x1bP+q544e\x1b\\", "\x1b_apc", "\x1b\\",
     "\x18", "\x1a", "\x1b", "\x1b[", "\x1b]", "\x9d", "\x9c", "\x85", "\x8d", "\x1b[3\n1m", "\x1b[6n", "\x1b[c",
     "\x1b[20b", "\x1b[" + "1" * 200 + "m"]
)  # fmt: skip
CONTROLS = st.sampled_from(["\r\n", "\r\n", "\n", "\r", "\t", "\b", "\x07", "\x00", "\x7f", "\v", "\f"])
WORDS = st.sampled_from(
    ["a", "hello world", "x" * 50, "漢字", "é", "e\u0301", "\u0301", "o" + "\u0300" * 20, "─│┌", "\u202eevil", "\u200d",
     "👩\u200d💻", "\ufe0f", "\u00a0", "\ufffd", "qqqlk", " ", "   ", "ก็", "\u2028", "\U000e0101"]
)  # fmt: skip
MARGINS = st.sampled_from(["\x1b[2;3r", "\x1b[1;2r", "\x1b[r", "\x1b[4;9r"])
PIECES = st.one_of(MARGINS, SEQUENCES, SWITCHES, STYLES, ESCAPES, CONTROLS, WORDS)
OUTPUT = st.lists(st.one_of(PIECES.map(str.encode), st.binary(max_size=6)), max_size=40).map(b"".join)
"""Anything."""
BULK = st.lists(
    st.one_of(WORDS, STYLES, CONTROLS.filter(lambda each: each >= "\x07"), st.just("\r\n")), max_size=60
).map(lambda pieces: "".join(pieces).encode())
"""Text with line ends and styles, as compilers write."""
SIZES = st.tuples(st.integers(1, 12), st.integers(1, 6))
