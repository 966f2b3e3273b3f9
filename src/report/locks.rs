//! The inventory of locks as text, JSON and Markdown.

mod json;
mod markdown;
mod text;

pub use json::{SCHEMA, VERSION, document as json};
pub use markdown::table as markdown;
pub use text::write as text;

use super::plain;
use crate::inventory::{Effect, Entry, Inventory, Place, backend_name, kind_name};
use crate::source::{Sources, Span};

/// Everything that is shown.
pub struct Report<'a> {
    /// The texts.
    pub sources: &'a Sources,
    /// The locks.
    pub inventory: &'a Inventory,
    /// For each lock the reason of the `[[lock]]` declaration that covers it.
    pub purposes: Vec<Option<String>>,
}

/// `4 locks, 1 marker, 2 undecided`.
pub fn counts(inventory: &Inventory) -> String {
    use super::count;
    format!(
        "{}, {}, {} undecided",
        count(inventory.locks.len(), "lock"),
        count(inventory.markers.len(), "marker"),
        inventory.undecided.len()
    )
}

impl Report<'_> {
    /// Locks with what is declared of them.
    fn locks(&self) -> impl Iterator<Item = (&Entry, Option<&str>)> {
        let purposes = self.purposes.iter().map(Option::as_deref).chain(std::iter::repeat(None));
        self.inventory.locks.iter().zip(purposes)
    }

    /// `src/lock.rs:22`.
    fn at(&self, span: Span) -> String {
        let file = self.sources.get(span.file);
        plain::one_line(&format!("{}:{}", file.path, file.line(span.start)))
    }
}

/// `Redis lease`.
fn what(entry: &Entry) -> String {
    format!("{} {}", backend_name(entry.backend), kind_name(entry.kind))
}

/// `UPDATE table `orders`, where id`.
fn effect(effect: &Effect) -> String {
    let target = if effect.target.is_empty() { String::new() } else { format!(" {}", effect.target) };
    let guard = if effect.guard.is_empty() { String::new() } else { format!(", {}", effect.guard) };
    plain::one_line(&format!("{}{target}{guard}", effect.verb))
}

/// Some words where a list is empty.
fn or(list: &[String], none: &str) -> String {
    if list.is_empty() { none.to_owned() } else { plain::one_line(&list.join(" or ")) }
}

fn place(place: &Place) -> String {
    plain::one_line(&place.what)
}
