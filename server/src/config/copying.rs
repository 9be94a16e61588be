//! What a dead letter carries beside the record, where it goes within its topic, and
//! whether that topic is made.

use super::{
    options::{self, Spec},
    reader::Reader,
    tree::Node,
    value::{self, Wrong},
};

/// Header names and encodings of other software, in which a dead letter may tell its
/// origin a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alias {
    /// Kafka Connect: `__connect.errors.*`.
    Connect,
    /// Kafka Streams: `__streams.errors.*`.
    Streams,
    /// Spring for Apache Kafka: `kafka_dlt-*`, numbers as big-endian bytes.
    Spring,
    /// Share groups: `__dlq.errors.*`.
    Share,
}

/// Which partition of its topic a dead letter goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LetterPartition {
    /// That of the record, modulo their number where the topic has fewer.
    #[default]
    Same,
    /// As the client chooses by the record's key.
    Key,
}

/// How a missing topic is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Creation {
    /// Partitions, 1 or more; `None`: as many as the source that has most.
    pub partitions: Option<u32>,
    /// Replicas, 1 or more; `None`: as the broker does by default.
    pub replication: Option<u32>,
}

/// How records are copied into their dead-letter topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copying {
    /// Sorted, without repeats.
    pub aliases: Vec<Alias>,
    /// Which partition.
    pub partition: LetterPartition,
    /// How missing dead-letter and retry topics are made; `None`: they are not.
    pub create: Option<Creation>,
}

impl Alias {
    /// All there are, with the words of the configuration.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Connect, "connect"),
        (Self::Streams, "streams"),
        (Self::Spring, "spring"),
        (Self::Share, "share"),
    ];

    fn word(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(alias, _)| *alias == self)
            .map_or("", |(_, word)| word)
    }
}

impl Copying {
    /// Reads it. `None` if something is wrong, which has been reported.
    pub(super) fn read(reader: &mut Reader<'_>, name: &str) -> Option<Self> {
        let aliases = match reader.given(&options::DEAD_LETTER_ALIASES, name) {
            Some(_) => reader.read(&options::DEAD_LETTER_ALIASES, name, aliases),
            None => Some(Vec::new()),
        };
        let partition = reader.read(&options::DEAD_LETTER_PARTITION, name, value::choice);
        let create = reader.read(&options::DEAD_LETTER_CREATE, name, value::flag);
        let partitions = reader.read(&options::DEAD_LETTER_PARTITIONS, name, value::small);
        let replication = reader.read(&options::DEAD_LETTER_REPLICATION, name, value::small);
        if create == Some(false) {
            for spec in [
                &options::DEAD_LETTER_PARTITIONS,
                &options::DEAD_LETTER_REPLICATION,
            ] {
                if reader.given(spec, name).is_some() {
                    let why = "has a meaning with dead_letter.create = true only: no topic is made";
                    reader.refuse(spec, name, why);
                }
            }
        }
        Some(Self {
            aliases: aliases?,
            partition: match partition? {
                "key" => LetterPartition::Key,
                _ => LetterPartition::Same,
            },
            create: create?.then_some(Creation {
                partitions,
                replication,
            }),
        })
    }

    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let aliases: Vec<&str> = self.aliases.iter().map(|alias| alias.word()).collect();
        let partition = match self.partition {
            LetterPartition::Same => "same",
            LetterPartition::Key => "key",
        };
        let mut settings = vec![
            ("dead_letter.aliases", aliases.join(",")),
            ("dead_letter.partition", partition.to_owned()),
            ("dead_letter.create", self.create.is_some().to_string()),
        ];
        if let Some(create) = self.create {
            let number = |number: Option<u32>, other: &str| {
                number.map_or_else(|| other.to_owned(), |number| number.to_string())
            };
            let partitions = number(create.partitions, "as the source");
            settings.push(("dead_letter.partitions", partitions));
            let replication = number(create.replication, "as the broker does");
            settings.push(("dead_letter.replication", replication));
        }
        settings
    }
}

fn aliases(node: &Node, spec: &Spec) -> Result<Vec<Alias>, Wrong> {
    let words = value::texts(node, spec)?;
    let mut aliases = Vec::with_capacity(words.len());
    for word in &words {
        let mut all = Alias::ALL.iter();
        let known = all.find(|(_, known)| known == word);
        aliases.push(
            known
                .ok_or_else(|| format!("must be {}", spec.expected()))?
                .0,
        );
    }
    aliases.sort_unstable();
    aliases.dedup();
    Ok(aliases)
}
