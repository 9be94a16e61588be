//! [`Addresses`]: where gateways are, as the program names them.

/// One address or more, each `HOST:PORT` or a URI such as `http://host:7654`; made from a
/// text, or from an array, slice or vector of texts. A host may be a name that resolves to
/// several gateways.
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
