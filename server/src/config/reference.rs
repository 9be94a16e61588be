//! The reference of all options, as Markdown, from the table of options.

use super::options::{self, Kind, Need, Spec, size, span};

/// Parts of the reference: title and how their keys begin.
const PARTS: [(&str, &str); 10] = [
    ("The gateway", "memory"),
    ("`[listen]`", "listen."),
    ("`[admin]`", "admin."),
    ("`[shutdown]`", "shutdown."),
    ("`[log]`", "log."),
    ("`[health]`", "health."),
    ("`[telemetry]`", "telemetry."),
    ("`[clusters.NAME]`", "clusters."),
    ("`[subscriptions.NAME]`", "subscriptions."),
    ("`[ad_hoc]`", "ad_hoc."),
];

/// The one option that is a whole table of others.
const TEMPLATE: &str = "| `template` | table of the options of `[subscriptions.NAME]`, less \
    `cluster`, `topics` and `group` | required | What an ad hoc subscription is made of; an opening \
    may ask for other values of some. |\n";

/// Every option with its values, unit, default and meaning, as Markdown tables.
#[must_use]
pub fn reference() -> String {
    let mut text = String::new();
    for (title, begin) in PARTS {
        let mut specs = options::all()
            .filter(|spec| spec.key.starts_with(begin))
            .peekable();
        if specs.peek().is_none() {
            continue;
        }
        text.push_str(&format!(
            "#### {title}\n\n| Option | Values | Default | Meaning |\n"
        ));
        text.push_str("|---|---|---|---|\n");
        for spec in specs {
            text.push_str(&row(spec));
        }
        if begin == "ad_hoc." {
            text.push_str(TEMPLATE);
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn row(spec: &Spec) -> String {
    let key = spec.key.split_once(".*.").map_or(spec.key, |(_, key)| key);
    let default = match spec.need {
        Need::Default(text) => format!("`{text}`"),
        Need::Required => "required".to_owned(),
        Need::Optional => "none".to_owned(),
    };
    format!(
        "| `{key}` | {} | {default} | {} |\n",
        values(spec),
        spec.about
    )
}

fn values(spec: &Spec) -> String {
    match &spec.kind {
        Kind::Socket => "IP address and port".to_owned(),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Integer { min, max, unit } => format!("{min} to {max} {unit}"),
        Kind::Float { min, max } => format!("{min} to {max}"),
        Kind::Duration { min, max } => format!("duration, {} to {}", span(*min), span(*max)),
        Kind::Size { min, max } => format!("size, {} to {}", size(*min), size(*max)),
        Kind::Choice { of, .. } => {
            let words: Vec<String> = of.iter().map(|word| format!("`\"{word}\"`")).collect();
            words.join(", ")
        }
        Kind::Text(what) => (*what).to_owned(),
        Kind::Texts(what) => format!("list of {what}"),
        Kind::Dsn => "address".to_owned(),
        Kind::Start => "word or time".to_owned(),
        Kind::Properties => "table".to_owned(),
    }
}
