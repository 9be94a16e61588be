//! What may stand in a line of the log: text of clients, records and brokers cannot end
//! the line, colour it, turn its direction, or carry a password of an address along.

use std::{borrow::Cow, fmt::Write as _};

/// Bytes of one value; the rest of a longer one is left out.
const LONGEST: usize = 64 * 1024;

/// What stands in place of a user and a password in an address.
const MASK: &str = "***";

/// Whether a character could change how the rest of a line looks, or where it ends.
pub(super) fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks of direction, and what embeds, overrides or isolates one.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Other ends of a line and of a paragraph.
            | '\u{2028}' | '\u{2029}'
            // What is not seen at all: a joiner (not the zero-width ones of scripts and
            // emoji), a byte order mark, annotations, tags.
            | '\u{2060}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Appends one character, `\n` or `\u{1b}` for a hostile one.
pub(super) fn push_escaped(out: &mut String, c: char) {
    match c {
        '\n' | '\r' | '\t' => out.extend(c.escape_default()),
        c if is_hostile(c) => {
            // A string takes everything.
            let _fits = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// `text` with hostile characters escaped, passwords of addresses masked, and at most
/// 64 KiB of it.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let text = masked(shortened(text));
    if !text.contains(is_hostile) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push_escaped(&mut out, c);
    }
    out.into()
}

/// At most 64 KiB of `text`, and how much is missing.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return text.into();
    }
    let kept = text.get(..text.floor_char_boundary(LONGEST));
    let kept = kept.unwrap_or_default();
    format!("{kept}… ({} bytes more)", text.len() - kept.len()).into()
}

/// `text` with `***` for what stands before the `@` of an address such as
/// `https://name:password@host`.
pub(super) fn masked(text: Cow<'_, str>) -> Cow<'_, str> {
    if !(text.contains("://") && text.contains('@')) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        // A password may hold an `@` itself: the last one before the host counts.
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(after.len());
        let (authority, path) = after.split_at_checked(end).unwrap_or((after, ""));
        match authority.rsplit_once('@') {
            Some((_secret, host)) => {
                out.push_str(MASK);
                out.push('@');
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        rest = path;
    }
    out.push_str(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_of_any_script_stays_as_it_is() {
        for text in ["", "orders", "касса-№7", "שלום", "👩‍🚀", "a=b \"c\" \\d"] {
            assert_eq!(clean(text), text);
            assert!(matches!(clean(text), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn what_ends_colours_or_turns_a_line_is_escaped() {
        let cases = [
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\0\u{7f}\u{9b}31m", "\\u{0}\\u{7f}\\u{9b}31m"),
            (
                "\u{202e}gpj\u{2066}\u{200f}",
                "\\u{202e}gpj\\u{2066}\\u{200f}",
            ),
            ("a\u{2028}b\u{85}c", "a\\u{2028}b\\u{85}c"),
            ("\u{feff}\u{e0041}", "\\u{feff}\\u{e0041}"),
        ];
        for (text, cleaned) in cases {
            assert_eq!(clean(text), cleaned);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "é".repeat(LONGEST);
        let cleaned = clean(&text);
        assert!(cleaned.len() < LONGEST + 40, "{}", cleaned.len());
        assert!(cleaned.ends_with("é… (65536 bytes more)"));
    }

    #[test]
    fn passwords_of_addresses_are_masked() {
        let cases = [
            ("http://me:pass@host:1/x?y", "http://***@host:1/x?y"),
            ("kafka://me:p@ss@a:1,b:2 is", "kafka://***@a:1,b:2 is"),
            (
                "one https://a@h, two http://b:c@i",
                "one https://***@h, two http://***@i",
            ),
            ("https://host/a@b", "https://host/a@b"),
            ("mail me@host", "mail me@host"),
        ];
        for (text, cleaned) in cases {
            assert_eq!(clean(text), cleaned);
        }
    }
}
