//! Values of options that are checked before anything is begun, and are told with what is
//! allowed.

use std::time::Duration;

/// The longest time that any option takes.
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

/// Longest name of a subscriber, in bytes, as the protocol has it.
const NAME_BYTES: usize = 256;

/// Longest filter, in bytes, as the protocol has it.
const FILTER_BYTES: usize = 4_096;

/// A parser of durations such as `10s`, from `least` to `most`.
pub(super) fn duration(
    least: Duration,
    most: Duration,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let allowed = || {
            let shown = humantime::format_duration;
            format!("{} to {}", shown(least), shown(most))
        };
        let duration = humantime::parse_duration(text)
            .map_err(|error| format!("{error}: expected {}, such as 10s", allowed()))?;
        if (least..=most).contains(&duration) {
            Ok(duration)
        } else {
            Err(format!("must be {}", allowed()))
        }
    }
}

/// The name of a subscriber.
///
/// # Errors
/// It has none or too many bytes, or control characters.
pub(super) fn name(text: &str) -> Result<String, String> {
    if (1..=NAME_BYTES).contains(&text.len()) && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "must have 1 to {NAME_BYTES} bytes without control characters"
        ))
    }
}

/// A filter, as far as it can be checked without a gateway.
///
/// # Errors
/// It is too long.
pub(super) fn filter(text: &str) -> Result<String, String> {
    if text.len() <= FILTER_BYTES {
        Ok(text.to_owned())
    } else {
        Err(format!("must have at most {FILTER_BYTES} bytes"))
    }
}

/// A part of a whole, 0.01 to 1.
///
/// # Errors
/// It is no number, or none of these.
pub(super) fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.01..=1.0).contains(&part) => Ok(part),
        Ok(_) | Err(_) => Err("must be a number from 0.01 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_outside_the_bounds_are_told_with_them() {
        let wait = duration(Duration::ZERO, Duration::from_secs(60));
        assert_eq!(wait("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(wait("0s"), Ok(Duration::ZERO));
        assert_eq!(wait("90s").unwrap_err(), "must be 0s to 1m");
        assert!(wait("soon").unwrap_err().ends_with("0s to 1m, such as 10s"));
    }

    #[test]
    fn names_filters_and_parts_have_bounds() {
        assert!(name("billing-1").is_ok());
        for wrong in ["", "a\nb", &"x".repeat(257)] {
            name(wrong).unwrap_err();
        }
        assert!(filter(&"x".repeat(4_096)).is_ok());
        filter(&"x".repeat(4_097)).unwrap_err();
        assert_eq!((part("0.01"), part("1")), (Ok(0.01), Ok(1.0)));
        for wrong in ["0", "1.1", "NaN", "half", "-1"] {
            part(wrong).unwrap_err();
        }
    }
}
