//! The addresses that the program listens on.

use std::net::SocketAddr;

use super::Resolver;
use crate::config::Listener;
use crate::raw::{RawListener, RawListeners};

impl Resolver<'_> {
    /// The listeners, which must differ from each other and from `admin`.
    pub(super) fn listen(
        &mut self,
        raw: Option<&RawListeners>,
        default: Vec<Listener>,
        admin: SocketAddr,
    ) -> Vec<Listener> {
        let mut taken = vec![("admin".to_owned(), admin)];
        let Some(raw) = raw else {
            // The default can meet what the user wrote for `admin`.
            if default.iter().any(|listener| collide(listener.address, admin)) {
                self.error(
                    "admin",
                    "the same address and port as listen by default; each needs its own".to_owned(),
                );
            }
            return default;
        };
        if raw.items.is_empty() {
            self.error("listen", "the list is empty; give at least one address".to_owned());
        }
        let mut listeners = Vec::new();
        for (index, item) in raw.items.iter().enumerate() {
            let path = if raw.is_list { format!("listen[{index}]") } else { "listen".to_owned() };
            let (listener, address_path) = match item {
                RawListener::Address(written) => {
                    let address = self.scalar(written, &path);
                    (address.map(|address| Listener { address, client_half_close: false }), path)
                }
                RawListener::Mapping(raw) => {
                    let address = self.required(&raw.address, &path, "address");
                    let client_half_close =
                        self.field(&raw.client_half_close, &path, "client_half_close", false);
                    (
                        address.map(|address| Listener { address, client_half_close }),
                        format!("{path}.address"),
                    )
                }
            };
            if let Some(listener) = listener {
                self.claim(address_path, listener.address, &mut taken);
                listeners.push(listener);
            }
        }
        listeners
    }

    /// Notes an address as taken, or says by whom it already is.
    fn claim(&mut self, path: String, address: SocketAddr, taken: &mut Vec<(String, SocketAddr)>) {
        if let Some((other, _)) = taken.iter().find(|(_, other)| collide(address, *other)) {
            let set = self.source.places.get(other).is_some();
            let also: &[(&str, &str)] = if set { &[(other, "takes it already")] } else { &[] };
            // The address itself may have come from the environment.
            let whose = if set { "" } else { " by default" };
            self.error_with(
                &path,
                format!("the same address and port as {other}{whose}; each needs its own"),
                also,
            );
        }
        taken.push((path, address));
    }
}

/// Whether both cannot be bound: the same port (0 takes any free one) on one address, or on
/// one address and on all addresses of that family.
fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let same_family = a.is_ipv4() == b.is_ipv4();
    let everywhere = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && (a.ip() == b.ip() || (same_family && everywhere))
}
