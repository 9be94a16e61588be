//! Tokens: made, written to a file as hashes, and found again.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::file;

/// Each call looks at all of them.
const MOST: usize = 10_000;

/// Longest name of a token.
const NAME_BYTES: usize = 128;

/// Longest token, in bytes.
const TOKEN_BYTES: usize = 4_096;

/// Wrong lines that are named at once.
const TOLD: usize = 10;

type Hash = [u8; 32];

/// Who calls: the name of the token that came with the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// One of this name.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tokens of a file, of which only hashes are known. Clones are one.
#[derive(Clone)]
pub struct Tokens {
    entries: Arc<[(Principal, Hash)]>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.entries.iter().map(|(principal, _)| principal.name());
        f.debug_list().entries(names).finish()
    }
}

impl Tokens {
    /// Reads a file of lines `NAME:sha256:HEX`, 1 to 10,000 of them, with empty lines and
    /// those that begin with `#` between them.
    ///
    /// # Errors
    /// It cannot be read, or lines are wrong: they are named by number, and never shown.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = String::from_utf8(file::read(path)?)
            .map_err(|_| format!("{shown} is not UTF-8 text"))?;
        Self::parse(&text).map_err(|why| format!("{shown}: {why}"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        let (mut names, mut hashes) = (BTreeMap::new(), BTreeMap::new());
        let mut wrong = Vec::new();
        for (number, line) in (1_u32..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match entry(line) {
                Ok((name, hash)) => {
                    if let Some(first) = names.insert(name.to_owned(), number) {
                        wrong.push(format!("line {number} has the name of line {first}"));
                    }
                    if let Some(first) = hashes.insert(hash, number) {
                        wrong.push(format!("line {number} has the token of line {first}"));
                    }
                    entries.push((Principal(name.into()), hash));
                }
                Err(why) => wrong.push(format!("line {number} {why}")),
            }
        }
        if wrong.is_empty() && entries.is_empty() {
            wrong.push("there is no token in it, so nobody could call".to_owned());
        }
        if entries.len() > MOST {
            wrong.push(format!("there are more than {MOST} tokens in it"));
        }
        if wrong.len() > TOLD {
            let more = wrong.len() - TOLD;
            wrong.truncate(TOLD);
            wrong.push(format!("and {more} more"));
        }
        if wrong.is_empty() {
            Ok(Self {
                entries: entries.into(),
            })
        } else {
            Err(wrong.join("; "))
        }
    }

    /// Whose token it is. Takes as long whether it is one or not, and whichever it is.
    #[must_use]
    pub fn principal(&self, token: &[u8]) -> Option<&Principal> {
        if token.len() > TOKEN_BYTES {
            return None;
        }
        let hash = hashed(token);
        // One above the place, so that 0 is none.
        let mut found = 0_u32;
        for (place, (_, known)) in (1_u32..).zip(self.entries.iter()) {
            let is_it: Choice = known.as_slice().ct_eq(hash.as_slice());
            found.conditional_assign(&place, is_it);
        }
        let place = usize::try_from(found).ok()?.checked_sub(1)?;
        self.entries.get(place).map(|(principal, _)| principal)
    }

    /// How many there are, at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }
}

/// Makes a token: 256 bits of the system's randomness behind a mark by which scanners for
/// leaked secrets can know it.
///
/// # Errors
/// The system gives none.
pub fn token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(format!("ackgate_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// The line of a tokens file for a token.
///
/// # Errors
/// The name or the token cannot be one; in words without the token.
pub fn written(name: &str, token: &str) -> Result<String, String> {
    check_name(name)?;
    if token.is_empty() || token.len() > TOKEN_BYTES {
        return Err(format!("a token has 1 to {TOKEN_BYTES} bytes"));
    }
    // What else a header may not hold, or would be trimmed from it.
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a token has no spaces and only visible ASCII characters".to_owned());
    }
    let hash = hashed(token.as_bytes());
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{name}:sha256:{hex}"))
}

fn hashed(token: &[u8]) -> Hash {
    Sha256::digest(token).into()
}

/// One line, with its hash.
fn entry(line: &str) -> Result<(&str, Hash), String> {
    let mut parts = line.splitn(3, ':');
    let (Some(name), Some("sha256"), Some(hex)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("must be NAME:sha256:HEX, as `ackgate token new NAME` prints it".to_owned());
    };
    check_name(name)?;
    let hash = unhex(hex).ok_or("must end with the 64 hexadecimal digits of a SHA-256")?;
    Ok((name, hash))
}

fn check_name(name: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.@/".contains(c);
    if (1..=NAME_BYTES).contains(&name.len()) && name.chars().all(legal) {
        Ok(())
    } else {
        Err(format!(
            "must have a name of 1 to {NAME_BYTES} of a-z, A-Z, 0-9, '_', '-', '.', '@' and '/'"
        ))
    }
}

fn unhex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 2 * hash.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: &[&str]) -> Result<Tokens, String> {
        Tokens::parse(&lines.join("\n"))
    }

    // FC-112: hashes are compared, all of them and in constant time; how much of a token is
    // right tells nothing.
    #[test]
    fn a_token_is_known_by_its_line_alone() {
        let (first, second) = (token().unwrap(), token().unwrap());
        assert_ne!(first, second);
        assert!(first.len() > 43, "{first}");
        let lines = [
            "# tokens".to_owned(),
            String::new(),
            written("billing", &first).unwrap(),
            format!(
                "  {}\r",
                written("a.b@c/d-e_1", &second).unwrap().to_uppercase()
            )
            .replace("A.B@C/D-E_1:SHA256", "a.b@c/d-e_1:sha256"),
        ];
        let tokens = Tokens::parse(&lines.join("\n")).expect("the file is valid");
        assert_eq!(tokens.count(), 2);
        let name = |token: &str| tokens.principal(token.as_bytes()).map(Principal::name);
        assert_eq!(name(&first), Some("billing"));
        assert_eq!(name(&second), Some("a.b@c/d-e_1"));
        let last = format!("{}!", &first[..first.len() - 1]);
        let begin = format!("!{}", &first[1..]);
        for wrong in [
            "",
            "ackgate_",
            &last,
            &begin,
            &first[1..],
            &format!("{first} "),
        ] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
        assert_eq!(name(&"x".repeat(1 << 20)), None);
        let debug = format!("{tokens:?} {lines:?}");
        assert!(
            debug.contains("billing") && !debug.contains(&first),
            "{debug}"
        );
    }

    #[test]
    fn hash_is_the_sha256_of_the_bytes() {
        // `printf secret | sha256sum`
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(
            written("me", "secret").unwrap(),
            format!("me:sha256:{hash}")
        );
        let tokens = file(&[&format!("me:sha256:{hash}")]).unwrap();
        assert_eq!(tokens.principal(b"secret").unwrap().name(), "me");
    }

    #[test]
    fn wrong_lines_are_named_by_number_and_not_shown() {
        let good = written("good", "one").unwrap();
        let same_token = written("other", "one").unwrap();
        let same_name = written("good", "two").unwrap();
        let why = file(&[
            &good,
            "hunter2-plain-token",
            "# remark",
            "me:sha256:hunter2",
            ":sha256:00",
            &same_token,
            &same_name,
            &format!("{good}0"),
            &good.replace("sha256", "sha512"),
        ])
        .expect_err("lines are wrong");
        for expected in [
            "line 2 must be NAME:sha256:HEX",
            "line 4 must end with the 64 hexadecimal digits",
            "line 5 must have a name",
            "line 6 has the token of line 1",
            "line 7 has the name of line 1",
            "line 8 must end",
            "line 9 must be",
        ] {
            assert!(why.contains(expected), "{expected} in {why}");
        }
        assert!(
            !why.contains("line 1 ") && !why.contains("line 3 "),
            "{why}"
        );
        assert!(!why.contains("hunter2"), "{why}");
    }

    #[test]
    fn files_without_or_with_too_many_tokens_are_refused() {
        assert!(file(&["# none"]).unwrap_err().contains("no token"));
        let lines: Vec<String> = (0..=MOST)
            .map(|n| written(&format!("n{n}"), &format!("t{n}")).unwrap())
            .collect();
        assert!(Tokens::parse(&lines[1..].join("\n")).is_ok());
        let why = Tokens::parse(&lines.join("\n")).unwrap_err();
        assert!(why.contains("more than 10000"), "{why}");
        let many = "x\n".repeat(50);
        let why = Tokens::parse(&many).unwrap_err();
        assert!(why.ends_with("and 40 more"), "{why}");
    }

    #[test]
    fn what_a_header_cannot_carry_is_no_token() {
        for wrong in ["", "a b", "a\n", "é", &"x".repeat(TOKEN_BYTES + 1)] {
            written("me", wrong).unwrap_err();
        }
        for wrong in ["", "a:b", "a b", &"x".repeat(NAME_BYTES + 1)] {
            written(wrong, "token").unwrap_err();
        }
    }
}
