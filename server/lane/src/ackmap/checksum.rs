//! CRC-32 (the reflected polynomial `0xEDB88320`, as in zlib), bit by bit: maps are at
//! most 3 KiB and read or written about once a second.

/// The checksum of `parts`, one after the other.
pub(super) fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in parts.iter().copied().flatten() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            let carry = crc & 1;
            crc = (crc >> 1) ^ (0xEDB8_8320 & carry.wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard_comes_out_in_one_part_or_two() {
        assert_eq!(crc32(&[b"123456789"]), 0xCBF4_3926);
        assert_eq!(crc32(&[b"1234", b"56789"]), 0xCBF4_3926);
        assert_eq!(crc32(&[]), 0);
    }
}
