//! Which Kafka a command speaks to, as its arguments say.
//!
//! They become the same table that a configuration file has, and pass the same
//! rules: there is one reader of addresses and properties.

use std::path::Path;

use anyhow::Result;
use toml::{Table, Value};

use crate::config::{self, Cluster};

/// The cluster's name in the configuration that [`Target::table`] is part of.
pub(super) const CLUSTER: &str = "main";

/// Where Kafka is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Target {
    /// Brokers to ask first, as HOST[:PORT], separated by commas; the port is 9092
    /// if not given.
    #[arg(long, value_name = "HOST:PORT,..", value_delimiter = ',')]
    bootstrap: Vec<String>,

    /// The same as an address with user and password:
    /// `kafka://[user:password@]host[:port][,host[:port]..]`.
    #[arg(
        long,
        value_name = "ADDRESS",
        conflicts_with = "bootstrap",
        env = "ACKGATE_CLUSTER",
        hide_env_values = true
    )]
    cluster: Option<String>,

    /// A client property for librdkafka, such as security.protocol=sasl_ssl. May be
    /// repeated.
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = pair)]
    properties: Vec<(String, String)>,
}

impl Target {
    /// The target that a broker in this process is.
    pub(super) fn of(bootstrap: &str) -> Self {
        let bootstrap = bootstrap.split(',').map(str::to_owned).collect();
        Self {
            bootstrap,
            ..Self::default()
        }
    }

    /// Brokers to ask first, with properties for the client.
    pub(super) fn with(bootstrap: &[String], properties: &[(String, String)]) -> Self {
        Self {
            bootstrap: bootstrap.to_vec(),
            cluster: None,
            properties: properties.to_vec(),
        }
    }

    /// Whether the command line names brokers. An address may be in the environment for
    /// other commands.
    pub(super) fn has_bootstrap(&self) -> bool {
        !self.bootstrap.is_empty()
    }

    /// The cluster's table in a configuration, or `None` if no argument names one.
    pub(super) fn table(&self) -> Option<Table> {
        let mut table = Table::new();
        if let Some(address) = &self.cluster {
            table.insert("address".to_owned(), address.clone().into());
        } else if self.bootstrap.is_empty() {
            return None;
        } else {
            table.insert("bootstrap".to_owned(), self.bootstrap.clone().into());
        }
        let properties: Table = self
            .properties
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.clone())))
            .collect();
        table.insert("properties".to_owned(), properties.into());
        Some(table)
    }

    /// The cluster that the arguments name, or `None` if they name none.
    ///
    /// # Errors
    /// An address or a property is refused.
    pub fn cluster(&self) -> Result<Option<Cluster>> {
        let Some(table) = self.table() else {
            return Ok(None);
        };
        let unused = toml::toml! {
            cluster = "main"
            topics = ["unused"]
            group = "unused"
            start = "earliest"
            order = "none"
            on_reject = "drop"
        };
        let text = configuration([
            ("clusters", CLUSTER, table),
            ("subscriptions", "unused", unused),
        ])?;
        let config = config::parse(&text, Path::new("arguments"), [])?;
        Ok(config.clusters.into_iter().next())
    }
}

/// The text of a configuration made of tables, each in a section under a name.
///
/// # Errors
/// A table cannot be written as TOML.
pub(super) fn configuration<'a>(
    tables: impl IntoIterator<Item = (&'a str, &'a str, Table)>,
) -> Result<String> {
    let mut root = Table::new();
    for (section, name, table) in tables {
        let entry = root.entry(section).or_insert_with(|| Table::new().into());
        if let Some(entry) = entry.as_table_mut() {
            entry.insert(name.to_owned(), table.into());
        }
    }
    Ok(toml::to_string(&root)?)
}

/// What `--address` is, for the help of commands that call a gateway's listen.address.
macro_rules! address_help {
    () => {
        "Where the gateway is, its listen.address: HOST[:PORT] or a URI, with https:// for TLS; \
         the port is 7654 if not given."
    };
}
pub(super) use address_help;

/// A gateway's address as a URI; `host:port` alone is one too.
pub(super) fn gateway(address: &str) -> String {
    if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
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
            ..Target::default()
        }
    }

    #[test]
    fn port_is_9092_where_none_is_given() {
        let cluster = target(&["a", "b:1", "[::1]:7"]).cluster().unwrap().unwrap();
        assert_eq!(cluster.bootstrap, ["a:9092", "b:1", "[::1]:7"]);
        assert!(target(&[]).cluster().unwrap().is_none());
    }

    #[test]
    fn address_with_a_password_sets_the_properties_and_is_never_shown() {
        let cluster = Some("kafka://me:hunter2@a:1,b".to_owned());
        let target = Target {
            cluster,
            ..Target::default()
        };
        let cluster = target.cluster().unwrap().unwrap();
        assert_eq!(cluster.bootstrap, ["a:1", "b:9092"]);
        assert!(
            cluster
                .properties
                .iter()
                .any(|(_, value)| value == "hunter2")
        );
        let wrong = Target {
            cluster: Some("kafka://me:hunter2@a:x".to_owned()),
            ..target
        };
        let error = format!("{:#}", wrong.cluster().unwrap_err());
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn properties_pass_the_rules_of_the_configuration() {
        let properties = vec![("client.id".to_owned(), "mine".to_owned())];
        let fine = Target {
            properties,
            ..target(&["a"])
        };
        let cluster = fine.cluster().unwrap().unwrap();
        assert!(
            cluster
                .properties
                .contains(&("client.id".to_owned(), "mine".to_owned()))
        );
        let properties = vec![("enable.auto.commit".to_owned(), "true".to_owned())];
        let refused = Target {
            properties,
            ..target(&["a"])
        };
        let error = format!("{:#}", refused.cluster().unwrap_err());
        assert!(error.contains("enable.auto.commit"), "{error}");
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
