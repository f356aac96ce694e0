//! Lanes: the numbers by which runs name their holders.
//!
//! An endpoint gets a new lane when it is forgotten, and the old one is owned by
//! nobody from that moment on: all its entries are gone for every reader, and
//! are taken out of the runs little by little before the lane is used again.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use forebay_core::EndpointId;

/// Most lanes: endpoints, and forgotten ones that are not yet taken out.
pub(crate) const MAX_LANES: usize = 1 << 14;
/// Most endpoint slots that have a place in an [`Owner`].
pub(crate) const MAX_SLOTS: u32 = 1 << 16;
/// Confidence 1 in an [`Owner`].
pub(crate) const SURE: u16 = u16::MAX;

/// Who owns a lane, and what its entries are worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) endpoint: EndpointId,
    /// In 65,535ths.
    pub(crate) confidence: u16,
}

impl Owner {
    /// `blocks` times the confidence, rounded down.
    #[inline]
    pub(crate) fn worth(self, blocks: u32) -> u32 {
        if self.confidence == SURE {
            return blocks;
        }
        (u64::from(blocks) * u64::from(self.confidence) / u64::from(SURE)) as u32
    }
}

/// The owners of all lanes.
pub(crate) struct Lanes {
    /// Slot (16 bits), confidence (16 bits, at least 1), generation (32 bits);
    /// 0 is nobody.
    owners: Box<[AtomicU64]>,
    high: AtomicU32,
    reused: AtomicU32,
}

impl Lanes {
    pub(crate) const BYTES: usize = MAX_LANES * size_of::<AtomicU64>();

    pub(crate) fn new() -> Lanes {
        Lanes {
            owners: (0..MAX_LANES).map(|_| AtomicU64::new(0)).collect(),
            high: AtomicU32::new(0),
            reused: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(crate) fn owner(&self, lane: u16) -> Option<Owner> {
        let word = self.owners.get(usize::from(lane))?.load(Acquire);
        let endpoint = EndpointId { slot: (word >> 48) as u32, generation: word as u32 };
        (word != 0).then_some(Owner { endpoint, confidence: (word >> 32) as u16 })
    }

    /// `None`: nobody owns it from now on.
    pub(crate) fn set_owner(&self, lane: u16, owner: Option<Owner>) {
        let word = owner.map_or(0, |Owner { endpoint, confidence }| {
            u64::from(endpoint.slot) << 48
                | u64::from(confidence.max(1)) << 32
                | u64::from(endpoint.generation)
        });
        if let Some(place) = self.owners.get(usize::from(lane)) {
            place.store(word, Release);
        }
    }

    /// Words of a bit set that has room for every lane in use; a multiple of 8.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        (self.high.load(Acquire) as usize).div_ceil(512) * 8
    }

    /// Lanes below this have been used.
    pub(crate) fn high(&self) -> u32 {
        self.high.load(Relaxed)
    }

    pub(crate) fn set_high(&self, high: u32) {
        self.high.store(high, Release);
    }

    /// Changes whenever a lane gets another owner than before: a look-up that
    /// saw it change may have taken one for the other.
    #[inline]
    pub(crate) fn reused(&self) -> u32 {
        self.reused.load(Acquire)
    }

    pub(crate) fn count_reuse(&self) {
        self.reused.store(self.reused.load(Relaxed).wrapping_add(1), Release);
    }
}
