//! Addresses of Kafka clusters: `kafka://[user:password@]host[:port][,host[:port]...]`.
//!
//! Invariant: no error and no masked text holds anything of a user or a password,
//! also where the address is too broken to say which part they are.

use std::net::Ipv6Addr;

use percent_encoding::percent_decode_str;

use super::problem::MASK;

const DEFAULT_PORT: u16 = 9092;
const SCHEME: &str = "kafka://";

/// An address taken apart. No `Debug`, for the password's sake.
pub(super) struct Dsn {
    pub(super) bootstrap: Vec<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

/// Takes an address apart.
pub(super) fn parse(address: &str) -> Result<Dsn, String> {
    let rest = address
        .trim()
        .get(..SCHEME.len())
        .filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
        .and_then(|_| address.trim().get(SCHEME.len()..))
        .ok_or("must begin with \"kafka://\"; other schemes are not supported")?;
    // From the right: whatever stands before the last '@' may be a password.
    let (login, hosts) = match rest.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        None => (None, rest),
    };
    let (user, password) = login.map_or(Ok((None, None)), credentials)?;
    let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
    if hosts.contains(['/', '?', '#']) {
        return Err(
            "must end after the last host: a path or a query means nothing here".to_owned(),
        );
    }
    let bootstrap = hosts.split(',').map(host).collect::<Result<_, _>>()?;
    Ok(Dsn {
        bootstrap,
        user,
        password,
    })
}

fn credentials(login: &str) -> Result<(Option<String>, Option<String>), String> {
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (login, None),
    };
    let raw = |text: &str| {
        text.contains(['@', '/', '?', '#', ':', ',']) || text.contains(char::is_whitespace)
    };
    if raw(user) || password.is_some_and(raw) {
        return Err(
            "has a character in its user or password that must be percent-encoded, such as \
                    %40 for @, %3A for :, %2F for / and %2C for a comma"
                .to_owned(),
        );
    }
    if user.is_empty() {
        return Err("has an empty user before the @".to_owned());
    }
    Ok((Some(decoded(user)?), password.map(decoded).transpose()?))
}

fn decoded(text: &str) -> Result<String, String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        let code = after
            .get(..2)
            .filter(|code| code.chars().all(|c| c.is_ascii_hexdigit()));
        if code.is_none() {
            return Err(
                "has a % in its user or password that begins no percent-encoded \
                        character; a plain % is written %25"
                    .to_owned(),
            );
        }
        rest = after;
    }
    let decoded = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| "has a user or password that is not UTF-8 once it is decoded".to_owned())?;
    if decoded.contains('\0') {
        return Err("has a zero character in its user or password".to_owned());
    }
    Ok(decoded.into_owned())
}

/// `host`, `host:port`, `[ipv6]` or `[ipv6]:port`, completed to `host:port`.
pub(super) fn host(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let (inner, after) = rest
            .split_once(']')
            .ok_or("has an IPv6 address without its closing bracket")?;
        inner
            .parse::<Ipv6Addr>()
            .map_err(|_| "has brackets around what is not an IPv6 address".to_owned())?;
        let port = match after {
            "" => None,
            _ => Some(
                after
                    .strip_prefix(':')
                    .ok_or("has something other than :port after ]")?,
            ),
        };
        (format!("[{inner}]"), port)
    } else {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        };
        if port.is_some_and(|port| port.contains(':')) {
            return Err(
                "has an IPv6 address, which must stand in brackets, or a second port".to_owned(),
            );
        }
        (name.to_owned(), port)
    };
    if name.is_empty() {
        return Err("has an empty host: every entry must be host or host:port".to_owned());
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    if !name.chars().all(legal) {
        return Err("has a host with a character that no host name has".to_owned());
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port
            .parse::<u16>()
            .ok()
            .filter(|number| *number > 0 && port.chars().all(|c| c.is_ascii_digit()))
            .ok_or("has a bad port: it must be a number from 1 to 65535")?,
    };
    Ok(format!("{name}:{port}"))
}

/// The address as it may be shown, whatever is wrong with it.
pub(super) fn masked(address: &str) -> String {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest))
            if scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '+') =>
        {
            (format!("{scheme}://"), rest)
        }
        Some(_) => return MASK.to_owned(),
        None => (String::new(), address),
    };
    let (login, hosts) = match rest.rsplit_once('@') {
        Some((_, hosts)) => (format!("{MASK}@"), hosts),
        None => (String::new(), rest),
    };
    let end = hosts.find(['/', '?', '#']);
    let (hosts, tail) = end
        .and_then(|end| hosts.split_at_checked(end))
        .unwrap_or((hosts, ""));
    let mut shown = Vec::new();
    for host in hosts.split(',') {
        match shown_host(host) {
            Some(host) => shown.push(host),
            // What follows may be the rest of the same secret.
            None => {
                shown.push(format!(
                    "{}:{MASK}",
                    host.split(':').next().unwrap_or_default()
                ));
                break;
            }
        }
    }
    let tail = if tail.len() > 1 {
        format!("{}{MASK}", tail.get(..1).unwrap_or_default())
    } else {
        tail.to_owned()
    };
    format!("{scheme}{login}{}{tail}", shown.join(","))
}

/// A host with its port, if that is what it is: a forgotten '@' leaves the password
/// where a port would be.
fn shown_host(text: &str) -> Option<String> {
    let ipv6 = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (name, port) = match ipv6 {
        Some((inner, port)) if inner.parse::<Ipv6Addr>().is_ok() => (format!("[{inner}]"), port),
        _ => {
            let (name, port) = text.split_at_checked(text.find(':').unwrap_or(text.len()))?;
            (name.to_owned(), port)
        }
    };
    let figures = port.chars().all(|c| c.is_ascii_digit() || c == ':') && port.len() <= 6;
    figures.then(|| format!("{name}{port}"))
}
