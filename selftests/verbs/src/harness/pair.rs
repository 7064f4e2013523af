// SPDX-License-Identifier: GPL-2.0

//! Two connected queue pairs of one process.

use std::{io, rc::Rc};

use super::{Context, Link, Mr, Pd, Qp, QpOptions, Setup};

/// Queue pairs `a` and `b`, connected to each other, in one domain.
pub struct Pair {
    pub a: Qp,
    pub b: Qp,
    pub pd: Rc<Pd>,
    pub context: Rc<Context>,
}

impl Pair {
    pub fn new(setup: &Setup) -> anyhow::Result<Self> {
        Self::with(setup, &QpOptions::default(), &Link::default())
    }

    pub fn with(setup: &Setup, options: &QpOptions, link: &Link) -> anyhow::Result<Self> {
        let context = Context::open(setup)?;
        let pd = context.pd()?;
        Ok(Self::in_domain(&pd, options, link)?)
    }

    /// With other attributes of the connection.
    pub fn linked(setup: &Setup, link: &Link) -> anyhow::Result<Self> {
        Self::with(setup, &QpOptions::default(), link)
    }

    pub fn in_domain(pd: &Rc<Pd>, options: &QpOptions, link: &Link) -> io::Result<Self> {
        let (a, b) = (Qp::new(pd, options)?, Qp::new(pd, options)?);
        a.connect(link, b.address())?;
        b.connect(link, a.address())?;
        Ok(Self {
            a,
            b,
            pd: pd.clone(),
            context: pd.context.clone(),
        })
    }

    /// A region of zeroes.
    pub fn region(&self, len: usize, access: u32) -> io::Result<Mr> {
        Mr::new(&self.pd, len, access)
    }

    /// A region that holds these bytes.
    pub fn filled(&self, bytes: &[u8], access: u32) -> io::Result<Mr> {
        Mr::filled(&self.pd, bytes, access)
    }
}
