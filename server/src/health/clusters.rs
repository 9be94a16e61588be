//! Whether each cluster answers: one cheap question, again and again, on a thread for
//! blocking work.
//!
//! **Invariant**: a cluster is asked one question at a time, at most every
//! [`WHILE_BAD`], and at least every [`WHILE_GOOD`] and the time that an answer takes.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{Notify, watch},
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};

use crate::{
    broker::{Error, ErrorKind, kafka::Probe},
    config::Cluster,
};

/// For one question.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What the client library may take longer than it was asked to, before the cluster
/// counts as silent.
const GRACE: Duration = Duration::from_secs(1);

/// Between questions while there is no answer, and the least time between any two.
const WHILE_BAD: Duration = Duration::from_secs(3);

/// Between questions while there are answers and nobody has a doubt.
const WHILE_GOOD: Duration = Duration::from_secs(10);

/// How each cluster answered when it was last asked, by name; none that was not asked
/// yet.
pub(super) type Answers = BTreeMap<String, Answer>;

/// How a cluster answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Whether it did.
    pub(crate) answers: bool,
    /// Since when it has been so.
    pub(crate) since: SystemTime,
    /// Why it did not, when it was last asked; without secrets.
    pub(crate) error: Option<String>,
}

/// Says that a cluster may not be as it was, so that it is asked soon.
pub(super) type Doubt = Arc<Notify>;

/// What asks one cluster, and says how it went. Blocks.
pub(super) trait Ask: Send + 'static {
    /// Asks once.
    ///
    /// # Errors
    /// There was no answer; why, without secrets.
    fn ask(&mut self) -> Result<(), Error>;
}

/// Asks all clusters in tasks of `tasks`; where the answers are, and what makes one be
/// asked sooner. Must be called within a tokio runtime.
pub(super) fn begin(
    clusters: &[Cluster],
    tasks: &mut JoinSet<()>,
) -> (watch::Receiver<Answers>, BTreeMap<String, Doubt>) {
    let (answers, told) = watch::channel(Answers::new());
    let answers = Arc::new(answers);
    let mut doubts = BTreeMap::new();
    for cluster in clusters {
        let doubt = Doubt::default();
        doubts.insert(cluster.name.clone(), Arc::clone(&doubt));
        let one = Kafka {
            cluster: cluster.clone(),
            probe: None,
        };
        let name = cluster.name.clone();
        tasks.spawn(keep_asking(name, one, Arc::clone(&answers), doubt));
    }
    (told, doubts)
}

async fn keep_asking(
    name: String,
    mut one: impl Ask,
    answers: Arc<watch::Sender<Answers>>,
    doubt: Doubt,
) {
    loop {
        let mut asked = spawn_blocking(move || {
            let answer = one.ask();
            (one, answer)
        });
        let in_time = timeout(ANSWER_WITHIN + GRACE, &mut asked).await;
        let ended = match in_time {
            Ok(ended) => ended,
            Err(_elapsed) => {
                // No second thread is spent on a cluster that keeps one.
                tell(&answers, &name, &Err(silent()));
                asked.await
            }
        };
        // An error means that the runtime ends.
        let Ok((back, answer)) = ended else { return };
        one = back;
        tell(&answers, &name, &answer);
        sleep(WHILE_BAD).await;
        if answer.is_ok() {
            // Either way it is asked now.
            drop(timeout(WHILE_GOOD - WHILE_BAD, doubt.notified()).await);
        }
    }
}

fn silent() -> Error {
    Error {
        kind: ErrorKind::Transient,
        detail: format!("no answer within {:?}", ANSWER_WITHIN + GRACE),
    }
}

/// Notes an answer, and logs it if it differs from the last one.
fn tell(answers: &watch::Sender<Answers>, cluster: &str, answer: &Result<(), Error>) {
    let news = answers.send_if_modified(|answers| {
        let before = answers.get(cluster);
        let same = before.filter(|before| before.answers == answer.is_ok());
        let now = Answer {
            answers: answer.is_ok(),
            since: same.map_or_else(SystemTime::now, |before| before.since),
            error: answer.as_ref().err().map(ToString::to_string),
        };
        let news = same.is_none();
        answers.insert(cluster.to_owned(), now);
        news
    });
    match answer {
        Ok(()) if news => tracing::info!(cluster, "cluster answers"),
        Err(error) if news => tracing::warn!(
            cluster, %error,
            "cluster does not answer: its subscriptions are told as not serving"
        ),
        Ok(()) | Err(_) => {}
    }
}

/// Asks a cluster of Kafka. The connection is kept while there are answers, and made
/// anew after none, without the pauses that the old one has got used to.
struct Kafka {
    cluster: Cluster,
    probe: Option<Probe>,
}

impl Ask for Kafka {
    fn ask(&mut self) -> Result<(), Error> {
        let probe = match self.probe.take() {
            Some(probe) => probe,
            None => Probe::new(&self.cluster, ANSWER_WITHIN)?,
        };
        probe.brokers()?;
        self.probe = Some(probe);
        Ok(())
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // The library waits for its own threads.
        if let Some(probe) = self.probe.take() {
            drop(spawn_blocking(move || drop(probe)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::Instant;

    use super::*;

    /// Answers as it was told, and counts.
    struct Scripted {
        asked: Arc<AtomicU32>,
        good: Vec<bool>,
    }

    impl Ask for Scripted {
        fn ask(&mut self) -> Result<(), Error> {
            let at = self.asked.fetch_add(1, Ordering::SeqCst) as usize;
            if self.good.get(at).copied().unwrap_or(true) {
                Ok(())
            } else {
                Err(silent())
            }
        }
    }

    struct Scene {
        answers: watch::Receiver<Answers>,
        doubt: Doubt,
        asked: Arc<AtomicU32>,
        _tasks: JoinSet<()>,
    }

    fn scene(good: &[bool]) -> Scene {
        let (sender, answers) = watch::channel(Answers::new());
        let (doubt, asked) = (Doubt::default(), Arc::new(AtomicU32::new(0)));
        let one = Scripted {
            asked: Arc::clone(&asked),
            good: good.to_vec(),
        };
        let mut tasks = JoinSet::new();
        let sender = Arc::new(sender);
        tasks.spawn(keep_asking("main".to_owned(), one, sender, doubt.clone()));
        Scene {
            answers,
            doubt,
            asked,
            _tasks: tasks,
        }
    }

    async fn told(scene: &mut Scene, expected: bool) {
        let heard =
            |answers: &Answers| answers.get("main").is_some_and(|it| it.answers == expected);
        scene.answers.wait_for(heard).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn cluster_is_asked_again_until_it_answers_and_from_then_on() {
        let mut scene = scene(&[false, false, true, false]);
        let begin = Instant::now();
        told(&mut scene, false).await;
        told(&mut scene, true).await;
        assert_eq!(scene.asked.load(Ordering::SeqCst), 3);
        assert!(begin.elapsed() >= 2 * WHILE_BAD, "{:?}", begin.elapsed());
        told(&mut scene, false).await;
        assert!(begin.elapsed() >= 2 * WHILE_BAD + WHILE_GOOD);
    }

    #[tokio::test(start_paused = true)]
    async fn doubt_has_a_cluster_asked_sooner_and_never_too_often() {
        let mut scene = scene(&[true, false]);
        told(&mut scene, true).await;
        let begin = Instant::now();
        scene.doubt.notify_one();
        scene.doubt.notify_one();
        told(&mut scene, false).await;
        let waited = begin.elapsed();
        assert!(waited >= WHILE_BAD && waited < WHILE_GOOD, "{waited:?}");
    }
}
