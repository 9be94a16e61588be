//! Values encoded from what the program has: JSON and MessagePack.

#[cfg(any(feature = "json", feature = "msgpack"))]
use super::Outgoing;

/// A value that cannot be encoded; nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("a record for {topic} cannot be written as {format}: {detail}")]
#[non_exhaustive]
pub struct EncodeError {
    /// Where the record was to go.
    pub topic: String,
    /// `JSON` or `MessagePack`.
    pub format: &'static str,
    /// What the encoder says.
    pub detail: String,
}

#[cfg(any(feature = "json", feature = "msgpack"))]
impl EncodeError {
    fn new(topic: String, format: &'static str, error: &dyn std::error::Error) -> Self {
        Self {
            topic,
            format,
            detail: error.to_string(),
        }
    }
}

#[cfg(any(feature = "json", feature = "msgpack"))]
impl Outgoing {
    /// A record whose value is `value` as JSON, without line breaks or spaces. `None`
    /// becomes the text `null`, which is no [`tombstone`](Self::tombstone).
    ///
    /// Needs the crate's feature `json`, which is on by default.
    ///
    /// ```
    /// #[derive(serde::Serialize)]
    /// struct Order {
    ///     id: u32,
    ///     item: &'static str,
    /// }
    /// # use ackgate_client::{EncodeError, Outgoing};
    /// # fn example() -> Result<(), EncodeError> {
    /// let order = Order { id: 7, item: "espresso" };
    /// let record = Outgoing::json("orders", &order)?.idempotency_key("order-7");
    /// # assert_eq!(record, Outgoing::new("orders", r#"{"id":7,"item":"espresso"}"#).key("order-7"));
    /// # Ok(())
    /// # }
    /// # example().unwrap();
    /// ```
    ///
    /// # Errors
    /// The value cannot be JSON: a map whose keys are not texts, or its own refusal.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(
        topic: impl Into<String>,
        value: &T,
    ) -> Result<Self, EncodeError> {
        let topic = topic.into();
        match serde_json::to_vec(value) {
            Ok(bytes) => Ok(Self::new(topic, bytes)),
            Err(error) => Err(EncodeError::new(topic, "JSON", &error)),
        }
    }

    /// A record whose value is `value` as MessagePack, with the names of fields, so that
    /// fields may be added and reordered later. `None` becomes MessagePack's nil, which
    /// is no [`tombstone`](Self::tombstone).
    ///
    /// Needs the crate's feature `msgpack`, which is on by default.
    ///
    /// # Errors
    /// The value refuses to be encoded.
    #[cfg(feature = "msgpack")]
    pub fn msgpack<T: serde::Serialize + ?Sized>(
        topic: impl Into<String>,
        value: &T,
    ) -> Result<Self, EncodeError> {
        let topic = topic.into();
        match rmp_serde::to_vec_named(value) {
            Ok(bytes) => Ok(Self::new(topic, bytes)),
            Err(error) => Err(EncodeError::new(topic, "MessagePack", &error)),
        }
    }
}
