//! The tests of the crate in one executable: each links the whole library. Those that need a process or features of
//! their own stand beside this folder.

mod blocks;
mod data_files;
mod edges;
mod files;
mod formats;
mod front;
mod mutations;
mod names;
mod optimizers;
mod programs;
mod quantised;
mod sparse;
mod sparse_compressed;
mod tables;
mod tensorboard;
mod views_and_memory;
mod word_piece;
