//! What an opening asks of a subscription's options, and where a running one differs.
//!
//! Boundary: knows no option's meaning. A wish is one option of the table with a
//! value; it is validated by the same reading as the file, and compared with the same
//! words in which the log shows a setting, so a new option needs nothing here.

use std::time::{Duration, SystemTime};

use super::{
    StartAt, Subscription, effective,
    options::span,
    tree::{Node, Origin, Table, Value},
};

/// Options that are refused where another one is not a certain word: option, word, and
/// what needs it.
const COMPANIONS: [(&str, &str, &str); 6] = [
    ("on_reject", "dead_letter", "dead_letter.topic"),
    ("order", "lane", "skip_acked"),
    ("order", "key", "key_share"),
    ("delivery", "broadcast", "slow_subscriber"),
    ("delivery", "broadcast", "slow_after"),
    ("delivery", "broadcast", "absent_grace"),
];

/// One option with the value asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A word, a name or a text.
    Text(String),
    /// A number.
    Number(u32),
    /// A time span.
    Span(Duration),
    /// Where a group begins.
    Start(StartAt),
}

/// Options asked for, by their path below a subscription, as `dead_letter.topic`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes(Vec<(&'static str, Wish)>);

/// An option that a subscription runs with and that is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Its path below a subscription.
    pub option: &'static str,
    /// As asked for.
    pub wanted: String,
    /// As it is; `none` if it is not set.
    pub running: String,
}

impl Wish {
    /// As the log shows the setting `option`.
    fn shown(&self, option: &str) -> String {
        match self {
            // Space around an expression means nothing, and the log quotes it.
            Self::Text(text) if option == "filter" => match text.trim() {
                "" => String::new(),
                expression => format!("{expression:?}"),
            },
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Span(duration) => span(*duration),
            Self::Start(at) => effective::start(*at),
        }
    }

    fn node(&self) -> Option<Node> {
        let text = |text: &str| Value::Text(text.to_owned());
        let value = match self {
            Self::Text(word) => text(word),
            Self::Number(number) => Value::Integer(i128::from(*number)),
            Self::Span(duration) => Value::Text(span(*duration)),
            Self::Start(StartAt::Timestamp(millis)) => {
                let since = Duration::from_millis(u64::try_from(*millis).ok()?);
                let time = SystemTime::UNIX_EPOCH.checked_add(since)?;
                let written = humantime::format_rfc3339_millis(time).to_string();
                let node = Node::new(Value::Text(written), Origin::Default);
                Value::Table(Table::from([("timestamp".to_owned(), node)]))
            }
            Self::Start(word) => Value::Text(effective::start(*word)),
        };
        Some(Node::new(value, Origin::Default))
    }
}

impl Wishes {
    /// Asks for an option; a repeat replaces what was asked for before.
    pub fn ask(&mut self, option: &'static str, wish: Wish) {
        self.0.retain(|(asked, _)| *asked != option);
        self.0.push((option, wish));
    }

    /// What is asked of one option.
    #[must_use]
    pub fn of(&self, option: &str) -> Option<&Wish> {
        let mut all = self.0.iter();
        all.find(|(asked, _)| *asked == option)
            .map(|(_, wish)| wish)
    }

    /// The options asked for.
    pub(super) fn options(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(option, _)| *option)
    }

    /// Where `running` differs, in the order of the wishes.
    #[must_use]
    pub fn contradictions(&self, running: &Subscription) -> Vec<Contradiction> {
        let settings = running.settings();
        let contradiction = |(option, wish): &(&'static str, Wish)| {
            let set = settings.iter().find(|(key, _)| key == option);
            let running = set.map(|(_, value)| value.as_str()).unwrap_or_default();
            let wanted = wish.shown(option);
            let or_none = |text: &str| if text.is_empty() { "none" } else { text }.to_owned();
            (wanted != running).then(|| Contradiction {
                option,
                wanted: or_none(&wanted),
                running: or_none(running),
            })
        };
        self.0.iter().filter_map(contradiction).collect()
    }

    /// Puts the wishes over a subscription's table. What was only there for an option
    /// that is asked to be otherwise goes with it. `Err` names the option whose value
    /// cannot be written at all.
    pub(super) fn put_over(&self, table: &mut Table) -> Result<(), &'static str> {
        let word = |option| match self.of(option) {
            Some(Wish::Text(word)) => Some(word.as_str()),
            Some(Wish::Number(_) | Wish::Span(_) | Wish::Start(_)) | None => None,
        };
        for (option, needed, companion) in COMPANIONS {
            if word(option).is_some_and(|it| it != needed) {
                remove(table, companion);
            }
        }
        for (option, wish) in &self.0 {
            if *option == "filter" && wish.shown(option).is_empty() {
                remove(table, option);
                continue;
            }
            let node = wish.node().ok_or(*option)?;
            insert(table, option, node);
        }
        Ok(())
    }
}

fn insert(table: &mut Table, path: &str, node: Node) {
    let Some((first, rest)) = path.split_once('.') else {
        table.insert(path.to_owned(), node);
        return;
    };
    let inner = table
        .entry(first.to_owned())
        .or_insert_with(|| Node::new(Value::Table(Table::new()), Origin::Default));
    if let Value::Table(inner) = &mut inner.value {
        insert(inner, rest, node);
    }
}

fn remove(table: &mut Table, path: &str) {
    let Some((first, rest)) = path.split_once('.') else {
        table.remove(path);
        return;
    };
    if let Some(Node {
        value: Value::Table(inner),
        ..
    }) = table.get_mut(first)
    {
        remove(inner, rest);
    }
}
