//! The options of `[telemetry]` become [`Telemetry`]. Files are read here, so that what is
//! wrong with them is known before anything is sent.

use axum::http::{HeaderName, HeaderValue, Uri};

use super::{
    Otlp, Telemetry,
    access_parse::read,
    options::{self, Spec},
    reader::Reader,
    tree::Node,
    value::{self, Wrong},
};
use crate::access::{Pem, small_file};

/// Headers that gRPC and HTTP write themselves.
const RESERVED: [&str; 8] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Lines of the file of headers.
const MOST_HEADERS: usize = 64;

/// Characters of a name for the service or the instance.
const NAME_LENGTH: usize = 255;

/// Reads it. `None` if something is wrong; that has been reported.
pub(super) fn telemetry(reader: &mut Reader<'_>) -> Option<Telemetry> {
    let service_name = reader.read(&options::TELEMETRY_SERVICE_NAME, "", name);
    let instance = match reader.given(&options::TELEMETRY_INSTANCE, "") {
        Some(_) => reader.read(&options::TELEMETRY_INSTANCE, "", name),
        None => Some(host()),
    };
    let max_lanes = reader.read(&options::TELEMETRY_METRICS_MAX_LANES, "", value::integer);
    let otlp = otlp(reader);
    Some(Telemetry {
        service_name: service_name?,
        instance: instance?,
        max_lanes: usize::try_from(max_lanes?).unwrap_or(usize::MAX),
        otlp: otlp?,
    })
}

fn otlp(reader: &mut Reader<'_>) -> Option<Option<Otlp>> {
    let is_given = reader.given(&options::OTLP_ENDPOINT, "").is_some();
    let endpoint = if is_given {
        reader.read(&options::OTLP_ENDPOINT, "", endpoint).map(Some)
    } else {
        (!reader.is_blocked(&options::OTLP_ENDPOINT)).then_some(None)
    };
    let headers = read(reader, &options::OTLP_HEADERS_FILE, |path| {
        headers(&small_file(&path)?)
    });
    let ca = read(reader, &options::OTLP_CA_FILE, |path| {
        Pem::certificates(&path)?;
        small_file(&path)
    });
    let interval = reader.read(&options::OTLP_METRICS_INTERVAL, "", value::duration);
    let traces = reader.read(&options::OTLP_TRACES, "", value::flag);
    let metrics = reader.read(&options::OTLP_METRICS, "", value::flag);
    let (headers, ca) = (headers?, ca?);
    let (metrics_interval, traces, metrics) = (interval?, traces?, metrics?);
    let Some(endpoint) = endpoint? else {
        for (spec, given) in [
            (&options::OTLP_HEADERS_FILE, headers.is_some()),
            (&options::OTLP_CA_FILE, ca.is_some()),
        ] {
            if given {
                reader.refuse(spec, "", "means nothing without telemetry.otlp.endpoint");
                return None;
            }
        }
        return Some(None);
    };
    let otlp = Otlp {
        endpoint,
        headers: headers.unwrap_or_default(),
        ca,
        traces,
        metrics,
        metrics_interval,
    };
    if otlp.ca.is_some() && !otlp.is_secure() {
        let why = "means nothing unless telemetry.otlp.endpoint begins with https://";
        reader.refuse(&options::OTLP_CA_FILE, "", why);
        return None;
    }
    Some(Some(otlp))
}

/// This machine's name.
fn host() -> String {
    let written = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = written.ok().or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.map(|name| name.trim().to_owned());
    name.filter(|name| is_name(name))
        .unwrap_or_else(|| "unknown".to_owned())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_LENGTH && !text.chars().any(char::is_control)
}

fn name(node: &Node, spec: &Spec) -> Result<String, Wrong> {
    let text = value::text(node, spec)?;
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be {}", spec.expected()))
    }
}

/// The endpoint, without a slash at its end.
fn endpoint(node: &Node, spec: &Spec) -> Result<String, Wrong> {
    let text = value::text(node, spec)?;
    let wrong = || format!("must be {}", spec.expected());
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let scheme = uri.scheme_str();
    let authority = uri.authority().ok_or_else(wrong)?;
    let is_plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
    if !matches!(scheme, Some("http" | "https")) || !is_plain || authority.as_str().contains('@') {
        return Err(wrong());
    }
    if authority.port_u16().is_none_or(|port| port == 0) {
        return Err(format!(
            "{}; receivers of OTLP over gRPC listen on 4317, mostly",
            wrong()
        ));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Lines `NAME: VALUE`. What is wrong is told by the line's number: values are secret.
fn headers(bytes: &[u8]) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "names a file that is not UTF-8")?;
    let mut headers = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        headers.push(header(line).map_err(|why| {
            format!("names a file whose line {number} {why}; lines are NAME: VALUE")
        })?);
        if headers.len() > MOST_HEADERS {
            return Err(format!("names a file of more than {MOST_HEADERS} headers"));
        }
    }
    Ok(headers)
}

fn header(line: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let (name, value) = line.split_once(':').ok_or("has no colon")?;
    let name = name.trim().to_ascii_lowercase();
    let is_reserved =
        RESERVED.contains(&name.as_str()) || name.starts_with("grpc-") || name.ends_with("-bin");
    let name = HeaderName::try_from(name).map_err(|_| "has no name of a header")?;
    if is_reserved {
        return Err("has a header that gRPC writes itself, or a binary one");
    }
    let value = value.trim();
    let is_ascii = value.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    if value.is_empty() || !is_ascii {
        return Err("has no value of visible ASCII characters");
    }
    let mut value = HeaderValue::from_str(value).map_err(|_| "has no value")?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_line_by_line_and_kept_from_debug() {
        let read = headers(b"# for the collector\n\nAuthorization: Bearer s3cret:x\r\nx-a:b\n");
        let read = read.expect("they are fine");
        let plain: Vec<_> = read
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default()))
            .collect();
        assert_eq!(plain, [("authorization", "Bearer s3cret:x"), ("x-a", "b")]);
        assert!(!format!("{read:?}").contains("s3cret"), "{read:?}");
    }

    #[test]
    fn a_line_that_is_no_header_is_told_by_its_number_and_not_by_what_it_holds() {
        for (text, number) in [
            ("secret", 1),
            ("x-a: b\n: secret", 2),
            ("te: secret", 1),
            ("grpc-timeout: secret", 1),
            ("a-bin: secret", 1),
            ("x-a: secr\u{e9}t", 1),
            ("x-a:", 1),
        ] {
            let error = headers(text.as_bytes()).expect_err(text);
            assert!(error.contains(&format!("line {number} ")), "{error}");
            assert!(!error.contains("secr"), "{error}");
        }
    }
}
