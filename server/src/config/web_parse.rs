//! Where pages may come from that call by gRPC-Web.

use super::{
    options::{self, Spec},
    reader::Reader,
    tree::{Node, Value},
    value::{self, Wrong},
};

/// Anywhere.
pub(super) const ANY_ORIGIN: &str = "*";

/// Whether gRPC-Web is served, and to which origins.
pub(super) fn web(reader: &mut Reader<'_>) -> Option<(bool, Vec<String>)> {
    let grpc_web = reader.read(&options::LISTEN_GRPC_WEB, "", value::flag);
    let origins = reader.read(&options::LISTEN_WEB_ORIGINS, "", origins);
    let (grpc_web, origins) = (grpc_web?, origins?);
    if !origins.is_empty() && !grpc_web {
        reader.refuse(
            &options::LISTEN_WEB_ORIGINS,
            "",
            "means nothing without listen.grpc_web = true",
        );
        return None;
    }
    Some((grpc_web, origins))
}

fn origins(node: &Node, spec: &Spec) -> Result<Vec<String>, Wrong> {
    if let Value::List(items) = &node.value
        && items.is_empty()
    {
        return Ok(Vec::new());
    }
    let origins = value::texts(node, spec)?;
    match origins.iter().find(|origin| !is_origin(origin)) {
        None => Ok(origins),
        Some(wrong) => Err(format!(
            "must be origins as browsers send them: scheme, host in small letters, and a port \
             unless it is the scheme's own, without anything after that, such as \
             \"https://app.example.com\"; {wrong:?} is none"
        )),
    }
}

/// Browsers send nothing but this; any other text would never be equal to it.
fn is_origin(text: &str) -> bool {
    if text == ANY_ORIGIN {
        return true;
    }
    let (rest, own_port) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (rest, ":443"),
        (None, Some(rest)) => (rest, ":80"),
        (None, None) => return false,
    };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._:[]".contains(c);
    !rest.is_empty() && rest.chars().all(is_plain) && !rest.ends_with(own_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_browsers_send_is_an_origin_and_nothing_else() {
        for good in [
            "*",
            "https://a.example",
            "http://localhost:8080",
            "http://[::1]:3000",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "",
            "null",
            "a.example",
            "https://",
            "https://a.example/",
            "https://A.example",
            "https://a.example:443",
            "http://a:80",
            "https://*.example",
            "ftp://a",
            "https://a b",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
