// SPDX-License-Identifier: GPL-2.0

//! The picture: bandwidth by size, and the ways to move a strided array.

use std::path::Path;

use anyhow::Context as _;
use plotters::prelude::*;

use crate::{
    groups::{bandwidth, layouts, MRX, RXE},
    report::{bytes, Report},
};

const SIZE: (u32, u32) = (1200, 520);

/// Draws what there is of it.
pub fn draw(report: &Report, path: &Path) -> anyhow::Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let machine = &report.machine;
    let title = format!(
        "{} - {} ({})",
        machine.kernel, machine.cpu, machine.accelerator
    );
    let root = root.titled(&title, ("sans-serif", 16))?;
    let (left, right) = root.split_horizontally(680);
    sizes(report, &left).context("draw bandwidth")?;
    shapes(report, &right).context("draw layouts")?;
    root.present()
        .with_context(|| format!("write {}", path.display()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Bandwidth of WRITE by size, both axes logarithmic.
fn sizes(report: &Report, area: &Area<'_>) -> anyhow::Result<()> {
    let lines: Vec<_> = [MRX, RXE, bandwidth::ONE_COPY, bandwidth::MEMCPY]
        .into_iter()
        .map(|subject| (subject, points(report, subject)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let values = lines
        .iter()
        .flat_map(|(_, points)| points.iter().map(|&(_, value)| value));
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    if lines.is_empty() {
        return Ok(());
    }
    let (from, to) = (
        bandwidth::SIZES[0],
        bandwidth::SIZES[bandwidth::SIZES.len() - 1],
    );
    let mut chart = ChartBuilder::on(area)
        .caption(
            "RDMA WRITE between two processes, MiB/s",
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(
            (from as f64..to as f64).log_scale().base(2.0),
            (low / 2.0..high * 2.0).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("message size")
        .x_label_formatter(&|&size| bytes(size.round() as usize))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    for (n, (subject, points)) in lines.into_iter().enumerate() {
        let color = Palette99::pick(n).to_rgba();
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)).point_size(3))?
            .label(subject)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

fn points(report: &Report, subject: &str) -> Vec<(f64, f64)> {
    let value = |&size: &usize| {
        let row = bandwidth::row("WRITE", size);
        report
            .find(bandwidth::BANDWIDTH, &row, subject)
            .map(|found| (size as f64, found.value))
    };
    bandwidth::SIZES.iter().filter_map(value).collect()
}

/// The ways to move the first strided array, as bars.
fn shapes(report: &Report, area: &Area<'_>) -> anyhow::Result<()> {
    let Some(first) = report
        .records
        .iter()
        .find(|record| record.table == layouts::TABLE)
    else {
        return Ok(());
    };
    let bars: Vec<_> = [
        layouts::INTERLEAVED,
        layouts::SG,
        layouts::PACKING,
        layouts::BLOCKS,
    ]
    .into_iter()
    .filter_map(|subject| report.find(layouts::TABLE, &first.row, subject))
    .collect();
    let high = bars
        .iter()
        .map(|bar| bar.value / 1000.0)
        .fold(0.0, f64::max);
    let names: Vec<_> = bars.iter().map(|bar| bar.subject).collect();
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{}, ms", first.row), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(
            (0..names.len().saturating_sub(1)).into_segmented(),
            0.0..high * 1.1,
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_label_formatter(&|place| match place {
            SegmentValue::CenterOf(n) => names.get(*n).copied().unwrap_or_default().to_owned(),
            _ => String::new(),
        })
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    chart.draw_series(bars.iter().enumerate().map(|(n, bar)| {
        let ends = [
            (SegmentValue::Exact(n), 0.0),
            (SegmentValue::Exact(n + 1), bar.value / 1000.0),
        ];
        let mut bar = Rectangle::new(ends, Palette99::pick(n).filled());
        bar.set_margin(0, 0, 12, 12);
        bar
    }))?;
    Ok(())
}
