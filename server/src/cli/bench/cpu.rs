//! CPU time of a process, from the files that Linux has for it.

/// Clock ticks in a second, as these files count them on every platform.
const TICKS: f64 = 100.0;

/// CPU seconds used so far by the process `id`, all threads, user and system;
/// `None` where the system cannot tell.
pub(super) fn seconds(id: u32) -> Option<f64> {
    parse(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

fn parse(stat: &str) -> Option<f64> {
    // The second field is the program's name in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some((f64::from(user) + f64::from(system)) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_whatever_the_program_is_called() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0";
        assert_eq!(parse(stat), Some(3.0));
        assert_eq!(parse("7 (a) S 1"), None);
    }

    #[test]
    fn own_time_can_be_told_on_linux() {
        assert_eq!(
            seconds(std::process::id()).is_some(),
            cfg!(target_os = "linux")
        );
    }
}
