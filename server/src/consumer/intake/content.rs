//! Whether a value is what `content.check` says.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::config::Check;

/// Levels of a value; `serde_json`'s own limit. Deeper ones would be a burden to many
/// a subscriber's parser, and to this stack.
const DEPTH: usize = 128;

/// Whether all of `value` is one of what it must be.
pub(super) fn passes(check: Check, value: &[u8]) -> bool {
    match check {
        Check::Utf8 => std::str::from_utf8(value).is_ok(),
        Check::Json => serde_json::from_slice::<Anything>(value).is_ok(),
        Check::Msgpack => {
            let mut rest = value;
            let mut reader = rmp_serde::Deserializer::new(&mut rest);
            reader.set_max_depth(DEPTH);
            Anything::deserialize(&mut reader).is_ok() && rest.is_empty()
        }
    }
}

/// Any value, which is not kept. Unlike serde's `IgnoredAny` it makes the formats read
/// what they pass over: texts are checked for UTF-8 and levels are counted.
struct Anything;

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

/// One `visit_…` per kind of value.
macro_rules! take {
    ($($visit:ident: $kind:ty),*) => {
        $(fn $visit<E>(self, _: $kind) -> Result<Self, E> {
            Ok(self)
        })*
    };
}

impl<'de> Visitor<'de> for Anything {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    take!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str,
        visit_bytes: &[u8]);

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_none<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self, D::Error> {
        Self::deserialize(inner)
    }

    /// `MessagePack`'s extensions: a number and bytes.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Self, D::Error> {
        Self::deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        while entries.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_is_text_of_any_kind() {
        assert!(passes(Check::Utf8, b""));
        assert!(passes(Check::Utf8, "gr\u{fc}n".as_bytes()));
        assert!(!passes(Check::Utf8, b"\xff"));
        assert!(!passes(Check::Utf8, b"cut \xc3"));
    }

    #[test]
    fn json_is_one_text_and_nothing_after_it() {
        for good in [
            "null",
            " {\"a\": [1, 2.5e3, \"\\u00e9\", true]} \n",
            "\"\"",
            "12345678901234567890123",
            "{\"a\":1,\"a\":2}",
        ] {
            assert!(passes(Check::Json, good.as_bytes()), "{good}");
        }
        for bad in [
            &b""[..],
            b" ",
            b"{",
            b"{} {}",
            b"{'a': 1}",
            b"[1,]",
            b"nul",
            b"\"\xff\"",
            b"{\"a\": \"\xff\"}",
            b"\"\\ud800\"",
            b"\xef\xbb\xbf{}",
            b"01",
            b"NaN",
        ] {
            assert!(!passes(Check::Json, bad), "{bad:?}");
        }
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(passes(Check::Json, nested(127).as_bytes()));
        assert!(!passes(Check::Json, nested(200).as_bytes()));
        assert!(!passes(Check::Json, "[".repeat(1_000_000).as_bytes()));
    }

    #[test]
    fn msgpack_is_one_value_and_nothing_after_it() {
        for good in [
            &b"\xc0"[..],
            b"\x81\xa1a\x93\x01\xcb\x40\x09\x21\xfb\x54\x44\x2d\x18\xc3",
            b"\xd6\xff\x00\x00\x00\x01", // a timestamp
            b"\xc7\x03\x05abc",          // an extension
            b"\xc4\x02\xff\xfe",         // binary
            b"\x82\x01\xc2\xc0\xc3",     // keys that are no text
        ] {
            assert!(passes(Check::Msgpack, good), "{good:?}");
        }
        for bad in [
            &b""[..],
            b"\xc0\xc0",
            b"\xc1",
            b"\x92\x01",
            b"\xa5abc",
            b"\xdb\xff\xff\xff\xff", // a text of 4 GiB that is not there
            b"\xdd\xff\xff\xff\xff", // so many items
            b"\xc6\xff\xff\xff\xff\x00",
            b"\xdf\xff\xff\xff\xff",
        ] {
            assert!(!passes(Check::Msgpack, bad), "{bad:?}");
        }
        let nested = |levels: usize| [vec![0x91; levels], vec![0xc0]].concat();
        assert!(passes(Check::Msgpack, &nested(100)));
        assert!(!passes(Check::Msgpack, &nested(200)));
        assert!(!passes(Check::Msgpack, &nested(1_000_000)));
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "the seed of a failure")]
    fn odd_bytes_never_panic() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        println!("seed {seed}");
        for _ in 0..20_000 {
            let len = random.usize(..24);
            let value: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            for check in [Check::Utf8, Check::Json, Check::Msgpack] {
                let _passes = passes(check, &value);
            }
        }
    }
}
