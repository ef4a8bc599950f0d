//! Losses and distances beside PyTorch's.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::too_many_lines, clippy::needless_update, reason = "tables of modules")]

use crate::common::*;
use corten::nn::*;
use corten::prelude::*;

macro_rules! reductions {
    ($goldens:ident, $($name:literal $kind:ident $options:ident;)+) => {$(
        for (text, reduction) in [("mean", Reduction::Mean), ("sum", Reduction::Sum), ("none", Reduction::None)] {
            let options = $options { reduction, ..Default::default() };
            $goldens.case(&format!("{} {text}", $name), || Ok($kind::with(options)), |m| {
                Ok(vec![m.forward(&x(&[3, 4]), &shifted(&[3, 4], 1.0))?])
            });
        }
    )+};
}

macro_rules! losses {
    ($goldens:ident, $($name:literal, $make:expr, [$(($($argument:expr),+)),+];)+) => {$(
        $goldens.case($name, || Ok($make), |m| Ok(vec![$(m.forward($(&$argument),+)?),+]));
    )+};
}

#[test]
fn losses_equal_pytorch() -> Result<()> {
    let mut goldens = Goldens::read();
    reductions! {
        goldens,
        "L1Loss" L1Loss L1LossOptions;
        "MSELoss" MseLoss MseLossOptions;
        "SmoothL1Loss" SmoothL1Loss SmoothL1LossOptions;
        "HuberLoss" HuberLoss HuberLossOptions;
    }
    let (a, b, c) = (x(&[3, 4]), shifted(&[3, 4], 1.0), shifted(&[3, 4], 2.0));
    let (log_probs, classes) = (op::log_softmax_int(&a, 1, None)?, index(4, &[3]));
    let probs = op::softmax_int(&b, 1, None)?;
    let (pa, pb) = (op::sigmoid(&a)?, op::sigmoid(&b)?);
    let weight = || Some(positive(&[4]));
    let labels = integers(&[0, 2, -1, 0, 3, -1, 0, 0, 1, 2, 3, -1], &[3, 4]);
    let many = (positive(&[3, 4]) * 3.0)?;
    let log_b = op::log_softmax_int(&b, 1, None)?;
    losses! {
        goldens,
        "SmoothL1Loss beta", SmoothL1Loss::with(SmoothL1LossOptions { beta: 0.3, ..Default::default() }), [(a, b)];
        "HuberLoss delta", HuberLoss::with(HuberLossOptions { delta: 0.3, ..Default::default() }), [(a, b)];
        "NLLLoss", NllLoss::new(), [(log_probs, classes)];
        "NLLLoss options", NllLoss::with(NllLossOptions { weight: weight(), ignore_index: 3, ..Default::default() }), [(log_probs, classes)];
        "CrossEntropyLoss", CrossEntropyLoss::new(), [(a, classes), (a, probs)];
        "CrossEntropyLoss options", CrossEntropyLoss::with(CrossEntropyLossOptions {
            weight: weight(), ignore_index: 3, label_smoothing: 0.1, ..Default::default()
        }), [(a, classes)];
        "LinearCrossEntropyLoss", LinearCrossEntropyLoss::with(4, 5, LinearCrossEntropyLossOptions {
            bias: true, ..Default::default()
        })?, [(a, classes)];
        "PoissonNLLLoss", PoissonNllLoss::new(), [(a, positive(&[3, 4]))];
        "PoissonNLLLoss options", PoissonNllLoss::with(PoissonNllLossOptions {
            log_input: false, full: true, ..Default::default()
        }), [(positive(&[3, 4]), many)];
        "GaussianNLLLoss", GaussianNllLoss::new(), [(a, b, positive(&[3, 4]))];
        "GaussianNLLLoss full", GaussianNllLoss::with(GaussianNllLossOptions {
            full: true, reduction: Reduction::Sum, ..Default::default()
        }), [(a, b, positive(&[3])), (a, b, positive(&[3, 1]))];
        "KLDivLoss", KlDivLoss::new(), [(log_probs, probs)];
        "KLDivLoss batchmean", KlDivLoss::with(KlDivLossOptions {
            batchmean: true, log_target: true, ..Default::default()
        }), [(log_probs, log_b)];
        "BCELoss", BceLoss::new(), [(pa, pb)];
        "BCELoss weight", BceLoss::with(BceLossOptions { weight: weight(), ..Default::default() }), [(pa, pb)];
        "BCEWithLogitsLoss", BceWithLogitsLoss::new(), [(a, pb)];
        "BCEWithLogitsLoss weights", BceWithLogitsLoss::with(BceWithLogitsLossOptions {
            weight: weight(), pos_weight: Some((positive(&[4]) * 2.0)?), ..Default::default()
        }), [(a, pb)];
        "HingeEmbeddingLoss", HingeEmbeddingLoss::new(), [(a, signs(&[3, 4]))];
        "CosineEmbeddingLoss", CosineEmbeddingLoss::with(CosineEmbeddingLossOptions {
            margin: 0.1, ..Default::default()
        }), [(a, b, signs(&[3]))];
        "MarginRankingLoss", MarginRankingLoss::with(MarginRankingLossOptions {
            margin: 0.1, ..Default::default()
        }), [(a, b, signs(&[3, 4]))];
        "SoftMarginLoss", SoftMarginLoss::new(), [(a, signs(&[3, 4]))];
        "MultiLabelMarginLoss", MultiLabelMarginLoss::new(), [(a, labels)];
        "MultiLabelSoftMarginLoss", MultiLabelSoftMarginLoss::with(MultiLabelSoftMarginLossOptions {
            weight: weight(), ..Default::default()
        }), [(a, binary(&[3, 4]))];
        "MultiMarginLoss", MultiMarginLoss::with(MultiMarginLossOptions {
            p: 2, margin: 0.5, weight: weight(), ..Default::default()
        }), [(a, classes)];
        "TripletMarginLoss", TripletMarginLoss::with(TripletMarginLossOptions {
            swap: true, ..Default::default()
        }), [(a, b, c)];
        "TripletMarginWithDistanceLoss", TripletMarginWithDistanceLoss::with(
            TripletMarginWithDistanceLossOptions { swap: true, ..Default::default() }
        ), [(a, b, c)];
        "CosineSimilarity", CosineSimilarity::new(), [(a, b)];
        "PairwiseDistance", PairwiseDistance::with(PairwiseDistanceOptions {
            p: 1.0, keepdim: true, ..Default::default()
        }), [(a, b)];
        "CTCLoss", CtcLoss::new(), [(
            op::log_softmax_int(&x(&[6, 2, 4]), 2, None)?, integers(&[1, 2, 3, 3], &[2, 2]),
            integers(&[6, 5], &[2]), integers(&[2, 2], &[2])
        )];
    }
    goldens.case(
        "AdaptiveLogSoftmaxWithLoss",
        || AdaptiveLogSoftmaxWithLoss::new(8, 20, &[5, 10]),
        |m| {
            let (input, target) = (x(&[4, 8]), integers(&[1, 7, 15, 19], &[4]));
            let (output, loss) = m.forward(&input, &target)?;
            Ok(vec![output, loss, m.log_prob(&input)?, m.predict(&input)?])
        },
    );
    goldens.finish(|name| {
        name.contains("Loss") || ["CosineSimilarity", "PairwiseDistance"].contains(&name)
    });
    Ok(())
}

#[test]
fn any_distance_may_be_given() -> Result<()> {
    let _drawing = drawing();
    let (a, b, c) = (x(&[3, 4]), shifted(&[3, 4], 1.0), shifted(&[3, 4], 2.0));
    let distance: Distance =
        std::sync::Arc::new(|a, b| op::pairwise_distance(a, b, 2.0, 1e-6, false));
    let options = TripletMarginWithDistanceLossOptions {
        distance_function: Some(distance),
        ..Default::default()
    };
    let own = TripletMarginWithDistanceLoss::with(options).forward(&a, &b, &c)?;
    let known = TripletMarginLoss::new().forward(&a, &b, &c)?;
    assert!(op::allclose(&own, &known, 1e-5, 1e-6, false)?);
    Ok(())
}
