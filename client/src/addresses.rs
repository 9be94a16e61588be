//! [`Addresses`]: where gateways are, as the program names them.

/// The port of an address that names none.
pub(crate) const DEFAULT_PORT: u16 = 7654;

/// One address or more, each `HOST[:PORT]` or a URI such as `http://host:7654`; made from a
/// text, or from an array, slice or vector of texts. A host may be a name that resolves to
/// several gateways, an IPv4 address, or an IPv6 address in brackets, as `[::1]:7654`.
/// Without a port it is 7654, also behind `https://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(Vec<String>);

impl Addresses {
    /// Takes any number of addresses.
    pub fn new(addresses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(addresses.into_iter().map(Into::into).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl From<&str> for Addresses {
    fn from(address: &str) -> Self {
        Self::new([address])
    }
}

impl From<String> for Addresses {
    fn from(address: String) -> Self {
        Self(vec![address])
    }
}

impl From<&String> for Addresses {
    fn from(address: &String) -> Self {
        Self::new([address])
    }
}

impl<S: Into<String>> From<Vec<S>> for Addresses {
    fn from(addresses: Vec<S>) -> Self {
        Self::new(addresses)
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for Addresses {
    fn from(addresses: [S; N]) -> Self {
        Self::new(addresses)
    }
}

impl<S: AsRef<str>> From<&[S]> for Addresses {
    fn from(addresses: &[S]) -> Self {
        Self::new(addresses.iter().map(AsRef::as_ref))
    }
}
