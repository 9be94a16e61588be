//! The token that goes out with every call.

use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
};

use crate::Error;

/// A bearer token, or none. Never shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Token(Option<MetadataValue<Ascii>>);

impl Token {
    /// The token as a header.
    ///
    /// # Errors
    /// It cannot be one; the message does not have it.
    pub(crate) fn new(token: Option<&Secret>) -> Result<Self, Error> {
        let Some(Secret(token)) = token else {
            return Ok(Self(None));
        };
        let wrong = || Error::Option {
            option: "token",
            problem: "must have only visible ASCII characters, and at least one".to_owned(),
        };
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong());
        }
        let mut value = MetadataValue::try_from(format!("Bearer {token}")).map_err(|_| wrong())?;
        // Neither shown in a `Debug` nor kept in a table of headers.
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }

    /// A call that has the token.
    pub(crate) fn on<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Self(Some(value)) = self {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        request
    }
}

/// The token as it was given.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_sent_and_never_shown() {
        let secret = Secret("hunter2".to_owned());
        let token = Token::new(Some(&secret)).expect("it is one");
        let request = token.on(());
        let sent = request.metadata().get("authorization").expect("it is sent");
        assert_eq!(sent.as_bytes(), b"Bearer hunter2");
        let shown = format!("{secret:?} {token:?} {request:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(Token::default().on(()).metadata().is_empty());
    }

    #[test]
    fn what_a_header_cannot_carry_is_refused_and_not_shown() {
        for wrong in ["", "hunter2\n", "hunter2 x", "hunter2\u{e9}"] {
            let error = Token::new(Some(&Secret(wrong.to_owned()))).expect_err("it is refused");
            let shown = format!("{error} {error:?}");
            assert!(
                shown.contains("token") && !shown.contains("hunter2"),
                "{shown}"
            );
        }
    }
}
