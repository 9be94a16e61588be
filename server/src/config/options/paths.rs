//! Which option stands at a path of the file.

use std::borrow::Cow;

use super::{Kind, Spec, all};

/// Where the template of ad hoc subscriptions is written: a subscription's options
/// without those that an opening gives.
pub(in crate::config) const TEMPLATE: [&str; 2] = ["ad_hoc", "template"];

/// What an opening gives.
pub(in crate::config) const GIVEN_BY_OPENINGS: [&str; 3] = ["cluster", "topics", "group"];

/// A path into the template as the path into a subscription that it stands for.
fn actual(path: &[String]) -> Cow<'_, [String]> {
    let template = path.iter().zip(TEMPLATE).filter(|(a, b)| *a == b).count() == TEMPLATE.len();
    let rest = path.get(TEMPLATE.len()..).unwrap_or_default();
    let given = |name: &String| GIVEN_BY_OPENINGS.contains(&name.as_str());
    if !template || rest.first().is_some_and(given) {
        return Cow::Borrowed(path);
    }
    let mut actual = vec!["subscriptions".to_owned(), String::new()];
    actual.extend_from_slice(rest);
    Cow::Owned(actual)
}

/// Whether a path has the form of a key; `*` matches any name.
fn matches(key: &str, path: &[String]) -> bool {
    let mut segments = key.split('.');
    path.iter().all(|name| {
        segments
            .next()
            .is_some_and(|segment| segment == "*" || segment == name)
    }) && segments.next().is_none()
}

/// The option at a path.
pub(in crate::config) fn at(path: &[String]) -> Option<&'static Spec> {
    let path = actual(path);
    all().find(|spec| matches(spec.key, &path))
}

/// The option whose table of properties a path leads into, and how many segments of
/// the path are the table's.
pub(in crate::config) fn properties_above(path: &[String]) -> Option<(&'static Spec, usize)> {
    let path = actual(path);
    all()
        .filter(|spec| matches!(spec.kind, Kind::Properties))
        .find_map(|spec| {
            let length = spec.key.split('.').count();
            path.get(..length)
                .filter(|head| matches(spec.key, head))
                .map(|_| (spec, length))
        })
}

/// The names that may follow a path; `*` among them stands for any.
pub(in crate::config) fn children(path: &[String]) -> Vec<&'static str> {
    let in_template = path == TEMPLATE;
    let depth = path.len();
    let path = actual(path);
    let mut names: Vec<&'static str> = all()
        .filter_map(|spec| {
            let mut segments = spec.key.split('.');
            let above = path.iter().all(|name| {
                segments
                    .next()
                    .is_some_and(|part| part == "*" || part == name)
            });
            above.then(|| spec.key.split('.').nth(depth)).flatten()
        })
        .collect();
    names.dedup();
    if in_template {
        names.retain(|name| !GIVEN_BY_OPENINGS.contains(name));
    } else if let ([ad_hoc], [above, template]) = (path.as_ref(), TEMPLATE)
        && ad_hoc == above
    {
        names.push(template);
    }
    names
}
