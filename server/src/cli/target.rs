//! Which Kafka a command speaks to, as its arguments say.

use anyhow::{Result, bail};

use crate::config::Cluster;

/// Where Kafka is.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// Brokers to ask first, as HOST[:PORT], separated by commas; the port is 9092
    /// if not given.
    #[arg(long, value_name = "HOST:PORT,..", value_delimiter = ',')]
    pub bootstrap: Vec<String>,

    /// A client property for librdkafka, such as security.protocol=sasl_ssl. May be
    /// repeated.
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = pair)]
    pub properties: Vec<(String, String)>,
}

impl Target {
    /// The cluster that the arguments name, or `None` if they name none.
    ///
    /// # Errors
    /// A broker's address is not valid.
    pub fn cluster(&self) -> Result<Option<Cluster>> {
        if self.bootstrap.is_empty() {
            return Ok(None);
        }
        let mut bootstrap = Vec::with_capacity(self.bootstrap.len());
        for address in &self.bootstrap {
            bootstrap.push(with_port(address.trim())?);
        }
        Ok(Some(Cluster {
            name: "cli".to_owned(),
            bootstrap,
            properties: self.properties.clone(),
        }))
    }
}

/// Splits `NAME=VALUE` at the first equals sign.
///
/// # Errors
/// There is none, or nothing before it.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        // The text may hold a secret.
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn with_port(address: &str) -> Result<String> {
    let (host, port) = match address.rsplit_once(':') {
        // The colons of a bare IPv6 address are not a port's.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (address, None),
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '/' || c == '@') {
        bail!("{address:?} is not a broker's address: expected HOST[:PORT]");
    }
    match port.map(str::parse::<u16>) {
        None if host.contains(':') && !host.ends_with(']') => Ok(format!("[{host}]:9092")),
        None => Ok(format!("{host}:9092")),
        Some(Ok(port)) if port > 0 => Ok(format!("{host}:{port}")),
        Some(_) => bail!("{address:?} is not a broker's address: ports go from 1 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(bootstrap: &[&str]) -> Target {
        let bootstrap = bootstrap
            .iter()
            .map(|&address| address.to_owned())
            .collect();
        Target {
            bootstrap,
            properties: Vec::new(),
        }
    }

    #[test]
    fn port_is_9092_where_none_is_given() {
        let cluster = target(&["a", "b:1", " 10.0.0.1:29092", "[::1]", "::1", "[::1]:7"]);
        assert_eq!(
            cluster.cluster().unwrap().unwrap().bootstrap,
            [
                "a:9092",
                "b:1",
                "10.0.0.1:29092",
                "[::1]:9092",
                "[::1]:9092",
                "[::1]:7"
            ]
        );
        assert!(target(&[]).cluster().unwrap().is_none());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for address in [
            "",
            ":9092",
            "a:",
            "a:0",
            "a:70000",
            "a:x",
            "kafka://a",
            "u:p@h:1",
            "a b",
        ] {
            assert!(target(&[address]).cluster().is_err(), "{address:?}");
        }
    }

    #[test]
    fn property_keeps_equals_signs_in_its_value() {
        assert_eq!(pair("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
        assert_eq!(pair("a=").unwrap(), ("a".to_owned(), String::new()));
        assert!(pair("=b").is_err());
        let error = pair("sasl.password:hunter2").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
