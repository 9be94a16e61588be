//! What clusters have answered and whether the gateway drains, for those who want to know
//! why something does not serve.

use std::sync::Arc;

use tokio::sync::watch;

use super::{
    board::Pen,
    clusters::{Answer, Answers},
};

/// What the gateway's health is judged by. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(super) clusters: Arc<[String]>,
    pub(super) answers: watch::Receiver<Answers>,
    pub(super) pen: Pen,
}

impl View {
    /// Each cluster of the configuration by name, with how it last answered; `None`: it has
    /// not been asked yet.
    pub(crate) fn clusters(&self) -> Vec<(String, Option<Answer>)> {
        let answers = self.answers.borrow();
        let of = |name: &String| (name.clone(), answers.get(name).cloned());
        self.clusters.iter().map(of).collect()
    }

    /// Whether the gateway stops.
    pub(crate) fn is_draining(&self) -> bool {
        self.pen.is_draining()
    }

    /// A gateway whose clusters were never asked, and what tells of them.
    #[cfg(test)]
    pub(crate) fn unasked(clusters: &[&str]) -> (Self, watch::Sender<Answers>) {
        let (sender, answers) = watch::channel(Answers::new());
        let over = tokio_util::sync::CancellationToken::new();
        let (pen, _board) = super::board::board([], over);
        let clusters = clusters.iter().map(|name| (*name).to_owned()).collect();
        let view = Self {
            clusters,
            answers,
            pen,
        };
        (view, sender)
    }
}
