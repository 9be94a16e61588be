//! Numbers as bytes: seven bits at a time, lowest first, as protobuf writes them.

use super::Doubt;

/// How many bytes `number` takes.
pub(super) const fn length(number: u64) -> usize {
    let bits = 64 - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Appends `number`.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(low(number) | 0x80);
        number >>= 7;
    }
    bytes.push(low(number));
}

const fn low(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

/// Reads bytes from the front.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Doubt> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Doubt::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u64, Doubt> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Doubt::Truncated)?;
            self.rest = rest;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return Err(Doubt::Lengths);
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Doubt::Lengths)
    }

    pub(super) fn small(&mut self) -> Result<u32, Doubt> {
        u32::try_from(self.number()?).map_err(|_too_large| Doubt::Lengths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_are_as_long_as_foretold() {
        for number in [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert_eq!(bytes.len(), length(number), "{number}");
            let mut reader = Reader::new(&bytes);
            assert_eq!((reader.number(), reader.left()), (Ok(number), 0));
        }
    }

    #[test]
    fn numbers_that_never_end_or_are_too_large_are_refused() {
        assert_eq!(Reader::new(&[0x80; 3]).number(), Err(Doubt::Truncated));
        assert_eq!(Reader::new(&[0xff; 12]).number(), Err(Doubt::Lengths));
        let mut large = vec![0xff; 9];
        large.push(2);
        assert_eq!(Reader::new(&large).number(), Err(Doubt::Lengths));
        assert_eq!(Reader::new(&[0xff; 5]).small(), Err(Doubt::Truncated));
    }
}
