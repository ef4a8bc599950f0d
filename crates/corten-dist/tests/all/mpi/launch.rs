//! Starting this test on several ranks, and what became of them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The variable that tells a rank what to do.
pub const ROLE: &str = "CORTEN_TEST_MPI_ROLE";
/// The variable that names the folder for what ranks have to say.
pub const FOLDER: &str = "CORTEN_TEST_MPI_FOLDER";

/// An `mpiexec`, and the library that goes with it.
pub struct Launcher {
    program: PathBuf,
    library: PathBuf,
}

/// Those of `CORTEN_TEST_MPIEXEC` (separated by colons) or else of `PATH`.
pub fn launchers() -> Vec<Launcher> {
    if std::env::var(ROLE).is_ok() {
        return Vec::new();
    }
    let named = std::env::var("CORTEN_TEST_MPIEXEC").ok().filter(|named| !named.is_empty());
    let programs: Vec<PathBuf> = match &named {
        Some(named) => named.split(':').map(PathBuf::from).collect(),
        None => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path)
                .map(|folder| folder.join("mpiexec"))
                .filter(|program| program.exists())
                .take(1)
                .collect()
        }
    };
    programs.into_iter().flat_map(with_libraries).collect()
}

/// A launcher works with every library beside it: MPICH has one of each binary interface.
fn with_libraries(program: PathBuf) -> Vec<Launcher> {
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_path_buf();
    let folders = [prefix.join("lib"), prefix.join("lib/x86_64-linux-gnu")];
    let names =
        ["libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1", "libmpi.so.40", "libmpi.so.80"];
    let of_launcher = |name: &str| is_open_mpi(&program) == name.contains(".so.40");
    let files = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    files
        .filter(|file| file.exists() && of_launcher(&file.to_string_lossy()))
        .map(|library| Launcher { program: program.clone(), library })
        .collect()
}

fn is_open_mpi(program: &Path) -> bool {
    version(program).contains("Open")
}

fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output().expect("mpiexec --version");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Launcher {
    /// Whether the launcher leaves the other ranks alone when one dies. That of MPICH has an option for it,
    /// but stops when it writes to the one that is gone.
    pub fn survives_deaths(&self) -> bool {
        is_open_mpi(&self.program)
    }

    pub fn start(&self, role: &str, count: usize, settings: &[(&str, &str)]) -> Run {
        let mut command = Command::new(&self.program);
        if is_open_mpi(&self.program) {
            command.args(["--oversubscribe", "--allow-run-as-root"]);
            if version(&self.program).contains(") 4") {
                command.arg("--enable-recovery");
            } else {
                command.args(["--runtime-options", "recoverable,continuous"]);
            }
        }
        command.args(["-n", &count.to_string()]).arg(std::env::current_exe().unwrap());
        self.run(command, role, count, settings)
    }

    pub fn start_alone(&self, role: &str) -> Run {
        self.run(Command::new(std::env::current_exe().unwrap()), role, 1, &[])
    }

    fn run(
        &self,
        mut command: Command,
        role: &str,
        count: usize,
        settings: &[(&str, &str)],
    ) -> Run {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("corten-mpi-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let output = std::fs::File::create(folder.join("output")).unwrap();
        command
            .args(["--exact", "mpi::a_rank", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(FOLDER, &folder)
            .env("CORTEN_MPI_LIBRARY", &self.library)
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let child = command.spawn().expect("mpiexec starts");
        let what = format!("{role} on {count} ranks with {}", self.library.display());
        Run { child, folder, count, what }
    }
}

/// Ranks on their way.
pub struct Run {
    child: Child,
    folder: PathBuf,
    count: usize,
    what: String,
}

impl Run {
    /// All ranks end well.
    pub fn expect_success(mut self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.child.try_wait().unwrap().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = self.child.try_wait().unwrap();
        let said: Vec<usize> = (0..self.count).filter(|rank| self.has_ended(*rank)).collect();
        assert!(
            status.is_some_and(|status| status.success()) && said.len() == self.count,
            "{}: {status:?}, ranks {said:?} ended well\n{}",
            self.what,
            self.output()
        );
    }

    /// The launcher ends all ranks.
    pub fn expect_end(mut self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.child.try_wait().unwrap().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = self.child.try_wait().unwrap();
        assert!(status.is_some(), "{}: it goes on\n{}", self.what, self.output());
    }

    /// These ranks end well, whatever becomes of the others.
    pub fn expect_survivors(self, ranks: &[usize], limit: Duration) {
        let end = Instant::now() + limit;
        let all =
            || ranks.iter().all(|&rank| self.has_ended(rank) && !is_alive(self.process(rank)));
        while !all() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(all(), "{}: not all survivors ended\n{}", self.what, self.output());
    }

    /// A launcher that is killed at once leaves files in `/tmp`.
    fn end_launcher(&mut self) {
        let _ =
            Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        let end = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn has_ended(&self, rank: usize) -> bool {
        self.folder.join(format!("ended-{rank}")).exists()
    }

    fn process(&self, rank: usize) -> Option<String> {
        std::fs::read_to_string(self.folder.join(format!("process-{rank}"))).ok()
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.folder.join("output")).unwrap_or_default()
    }
}

/// Whether a process runs: one that has ended and is not reaped does not.
fn is_alive(process: Option<String>) -> bool {
    let Some(process) = process else { return false };
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

impl Drop for Run {
    fn drop(&mut self) {
        for process in (0..self.count).filter_map(|rank| self.process(rank)) {
            if is_alive(Some(process.clone())) {
                // A process that is gone already is no fault.
                let _ = Command::new("kill").args(["-9", &process]).status();
            }
        }
        self.end_launcher();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
