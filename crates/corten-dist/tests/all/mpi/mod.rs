//! The back end `mpi`: this test starts itself under the launchers of MPI that are found. Each rank runs
//! the test `a_rank`, which does nothing otherwise. Where no launcher is found, it says so.

mod launch;
mod ranks;

use launch::{Launcher, launchers};
use std::time::Duration;

/// What runs on each rank.
#[test]
fn a_rank() {
    if let Ok(role) = std::env::var(launch::ROLE) {
        ranks::run(&role);
    }
}

fn each_launcher(test: impl Fn(&Launcher)) {
    let found = launchers();
    if found.is_empty() {
        println!("not run: there is no mpiexec, nor a library of MPI beside it");
    }
    found.iter().for_each(test);
}

#[test]
fn collectives_equal_what_one_process_computes() {
    each_launcher(|launcher| {
        launcher.start("collectives", 2, &[]).expect_success(Duration::from_secs(60));
        launcher.start("few", 4, &[]).expect_success(Duration::from_secs(60));
    });
}

#[test]
fn steps_that_are_longer_than_mpi_counts() {
    each_launcher(|launcher| {
        let settings = [("CORTEN_MPI_MAX_BYTES", "48")];
        launcher.start("long", 2, &settings).expect_success(Duration::from_secs(60));
    });
}

#[test]
fn groups_and_messages() {
    each_launcher(|launcher| {
        launcher.start("groups", 4, &[]).expect_success(Duration::from_secs(60));
    });
}

#[test]
fn a_rank_that_stops_in_the_middle() {
    each_launcher(|launcher| {
        for role in ["stopped", "killed"] {
            let run = launcher.start(role, 3, &[]);
            if role == "killed" && !launcher.survives_deaths() {
                run.expect_end(Duration::from_secs(30));
            } else {
                run.expect_survivors(&[0, 2], Duration::from_secs(30));
            }
        }
    });
}

#[test]
fn a_program_without_a_launcher_is_alone() {
    each_launcher(|launcher| {
        launcher.start_alone("alone").expect_success(Duration::from_secs(30));
    });
}
