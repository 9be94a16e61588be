//! [`Lines`]: each event becomes one line, with what its spans say, in one write.

use std::io::Write as _;

use tracing::{Subscriber, span};
use tracing_subscriber::{
    Layer,
    fmt::MakeWriter,
    layer::Context,
    registry::{LookupSpan, Scope},
};

use super::{
    event::{Event, Fields},
    line,
};

/// How lines are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// For people, coloured or not.
    Text { colours: bool },
    /// One JSON object per line.
    Json,
}

/// Writes events.
#[derive(Debug)]
pub(super) struct Lines<W> {
    pub(super) form: Form,
    pub(super) writer: W,
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = ctx.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &tracing::Event<'_>, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        // Of two spans with the same field the inner one counts.
        for span in ctx
            .event_scope(event)
            .into_iter()
            .flat_map(Scope::into_iter)
        {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.add(outer);
            }
        }
        let metadata = event.metadata();
        let event = Event {
            timestamp: humantime::format_rfc3339_micros(std::time::SystemTime::now()).to_string(),
            level: *metadata.level(),
            target: match &fields.target {
                Some(target) => target,
                None => metadata.target(),
            },
            message: &fields.message,
            fields: &fields.list,
        };
        let line = match self.form {
            Form::Text { colours } => line::text(&event, colours),
            Form::Json => line::json(&event),
        };
        // Whoever read the log may have gone; that must not cost a thread, and there is
        // nowhere to tell it.
        let _read = self
            .writer
            .make_writer_for(metadata)
            .write_all(line.as_bytes());
    }
}
