//! The programs under test: how each is started, found ready and ended.

mod child;
mod configs;

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Serialize;

use crate::cores::Cores;
use crate::temp::TempDir;
pub(crate) use child::Running;

/// What is compared. The order is that of the table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Program {
    Nginx,
    Haproxy,
    Copy,
    Forebay,
}

impl Program {
    pub(crate) const ALL: [Program; 4] = [Program::Nginx, Program::Haproxy, Program::Copy, Program::Forebay];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Program::Nginx => "nginx",
            Program::Haproxy => "haproxy",
            Program::Copy => "copy",
            Program::Forebay => "forebay",
        }
    }

    /// Where its executable is; `None` when it is not installed or not built.
    pub(crate) fn find(self) -> Option<PathBuf> {
        match self {
            Program::Copy => std::env::current_exe().ok(),
            Program::Forebay => {
                let path = std::env::current_exe().ok()?.with_file_name("forebay");
                path.is_file().then_some(path)
            }
            // Debian keeps servers in folders that are not in every user's PATH.
            Program::Nginx | Program::Haproxy => {
                let path = std::env::var("PATH").unwrap_or_default();
                let folders = path.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
                folders.map(|folder| PathBuf::from(folder).join(self.name())).find(|path| path.is_file())
            }
        }
    }

    /// The first line it says about its version.
    pub(crate) fn version(self) -> String {
        let argument = match self {
            Program::Nginx | Program::Haproxy => "-v",
            Program::Copy => return format!("forebay-bench {}", env!("CARGO_PKG_VERSION")),
            Program::Forebay => "--version",
        };
        let output =
            self.find().and_then(|path| std::process::Command::new(path).arg(argument).output().ok());
        let said = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned()
    }

    /// Starts it before `backends`, on the proxy's core, and waits until it
    /// answers a request.
    pub(crate) async fn start(self, backends: &[SocketAddr], cores: Cores) -> Result<Running, String> {
        // A port that was free may be taken by the time the program binds it.
        const TRIES: usize = 3;
        let mut last = String::new();
        for _ in 0..TRIES {
            match self.start_once(backends, cores).await {
                Ok(running) => return Ok(running),
                Err(e) => last = e,
            }
        }
        Err(format!("{}: {last}", self.name()))
    }

    async fn start_once(self, backends: &[SocketAddr], cores: Cores) -> Result<Running, String> {
        let path = self.find().ok_or("not found")?;
        let dir = TempDir::new()?;
        let text = |path: PathBuf| path.display().to_string();
        let folder = dir.path().display().to_string();
        let (arguments, address) = match self {
            Program::Nginx => {
                let address = configs::free_address()?;
                let file = dir.write("nginx.conf", &configs::nginx(address, backends, &folder))?;
                (vec!["-c".to_owned(), text(file), "-p".to_owned(), folder], Some(address))
            }
            Program::Haproxy => {
                let address = configs::free_address()?;
                let file = dir.write("haproxy.cfg", &configs::haproxy(address, backends))?;
                (vec!["-f".to_owned(), text(file), "-db".to_owned()], Some(address))
            }
            Program::Copy => {
                let backends = backends.iter().map(ToString::to_string);
                (std::iter::once("copy".to_owned()).chain(backends).collect(), None)
            }
            Program::Forebay => {
                let file = dir.write("forebay.yaml", &configs::forebay(backends))?;
                (vec!["serve".to_owned(), "--config".to_owned(), text(file)], None)
            }
        };
        Running::start(&path, &arguments, address, cores, dir).await
    }
}
