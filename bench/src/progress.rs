// SPDX-License-Identifier: GPL-2.0

//! What is being measured just now: a bar on a terminal, else lines.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress over the groups.
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    count: usize,
    done: usize,
}

impl Progress {
    /// So many groups are to come.
    pub fn new(count: usize) -> Self {
        let target = ProgressDrawTarget::stderr();
        // The bar must not be redrawn by a thread of its own: this process forks.
        let bar = (!target.is_hidden()).then(|| {
            let style = ProgressStyle::with_template("[{elapsed}] {wide_bar} {pos}/{len} {msg}");
            let bar = ProgressBar::with_draw_target(Some(count as u64), target);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self {
            bar,
            started: Instant::now(),
            count,
            done: 0,
        }
    }

    /// A group begins.
    pub fn begin(&mut self, name: &str, what: &str) {
        self.done += 1;
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done as u64 - 1);
                bar.set_message(name.to_owned());
            }
            None => {
                let (done, count, time) = (self.done, self.count, self.started.elapsed().as_secs());
                println!("[{done:>2}/{count}] {time:>4} s  {name}: {what}");
            }
        }
    }

    /// All groups are done.
    pub fn end(&self) {
        match &self.bar {
            Some(bar) => bar.finish_and_clear(),
            None => println!("        {:>4} s  done", self.started.elapsed().as_secs()),
        }
    }
}
