//! The user's own options.

use std::ops::RangeInclusive;

/// The user's own options, by the layout's names.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pairs: Vec<(String, String)>,
}

impl Settings {
    /// Of pairs of name and value.
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Settings { pairs }
    }

    /// The value of `name`, the last if there are several.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(its, _)| its == name).map(|(_, value)| value.as_str())
    }

    /// The value of `name` as a whole number in a range, or what is wrong with it.
    pub fn number(&self, name: &str, legal: RangeInclusive<u64>) -> Result<Option<u64>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.parse() {
            Ok(number) if legal.contains(&number) => Ok(Some(number)),
            _ => Err(format!(
                "option {name}=\"{value}\": want a whole number from {} to {}, as in --set {name}={}",
                legal.start(),
                legal.end(),
                legal.start()
            )),
        }
    }

    /// The value of `name` as one of several words, or what is wrong with it.
    pub fn choice(&self, name: &str, legal: &[&'static str]) -> Result<Option<&'static str>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let found = legal.iter().find(|&&word| word == value);
        found
            .map(|word| Some(*word))
            .ok_or_else(|| format!("option {name}=\"{value}\": want one of {}, as in --set {name}={}", legal.join(", "), legal[0]))
    }

    /// Refuses to open what was made with another value of `name` than the user asks for now.
    pub fn kept(&self, name: &str, kept: &str) -> crate::Result<()> {
        match self.get(name) {
            Some(asked) if asked != kept => {
                Err(crate::Error::Failed(format!("option {name}={asked}: it was made with {name}={kept}, which cannot change: leave the option out")))
            }
            _ => Ok(()),
        }
    }

    /// A mistake for every name that is not among the known ones.
    pub fn unknown(&self, known: &[&str]) -> Vec<String> {
        let there = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        let unknown = self.pairs.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        unknown.map(|(name, _)| format!("unknown option \"{name}\": there are {there}")).collect()
    }
}
