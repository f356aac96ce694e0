//! Dense ids: small numbers that index arrays.
//!
//! Slots are reused. An id that can outlive what it names (an endpoint that
//! was removed, a ticket that was settled) carries a generation, so that a
//! late message for the old holder of the slot is recognised and dropped.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
        )]
        pub struct $name(pub u32);

        impl $name {
            /// The array index this id stands for.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

macro_rules! generational_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name {
            /// Which place in the table; reused after the holder is gone.
            pub slot: u32,
            /// Which holder of that place, counted from 0.
            pub generation: u32,
        }

        impl $name {
            /// The array index this id stands for.
            pub const fn index(self) -> usize {
                self.slot as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({}.{})"), self.slot, self.generation)
            }
        }
    };
}

dense_id!(
    /// A pool, by its place in the configuration.
    PoolId
);
dense_id!(
    /// A model or adapter name that clients may ask for, interned by the registry.
    ModelId
);
dense_id!(
    /// Who pays: a tenant, interned by the shell; 0 while nobody is told apart.
    TenantId
);
dense_id!(
    /// A version of what endpoints serve, interned by the shell.
    VersionId
);
generational_id!(
    /// One endpoint of a Gate.
    EndpointId
);
generational_id!(
    /// One admitted or waiting request of a Gate.
    TicketId
);
