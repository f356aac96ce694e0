//! What a policy remembers of each endpoint.

use forebay_core::EndpointId;
use serde::{Deserialize, Serialize};

use crate::endpoints::Endpoints;

/// A value for each slot. What was kept of a former holder is dropped the first
/// time that the slot is looked at under its new one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BySlot<T> {
    rows: Vec<(Option<EndpointId>, T)>,
}

impl<T: Clone + Default> BySlot<T> {
    /// The value of whoever holds the slot now.
    pub(crate) fn at(&mut self, slot: u32, endpoints: &Endpoints) -> &mut T {
        let (i, id) = (slot as usize, endpoints.id(slot));
        if i >= self.rows.len() {
            self.rows.resize_with(i + 1, || (None, T::default()));
        }
        let row = &mut self.rows[i];
        if row.0 != Some(id) {
            *row = (Some(id), T::default());
        }
        &mut row.1
    }

    /// The value of whoever holds the slot now; none when it was not looked at yet.
    pub(crate) fn get(&self, slot: u32, endpoints: &Endpoints) -> Option<&T> {
        let row = self.rows.get(slot as usize)?;
        (row.0 == Some(endpoints.id(slot))).then_some(&row.1)
    }

    /// The value of the holder that was last looked at; none when nobody was.
    pub(crate) fn last(&mut self, slot: u32) -> Option<&mut T> {
        self.rows.get_mut(slot as usize).filter(|row| row.0.is_some()).map(|row| &mut row.1)
    }
}
