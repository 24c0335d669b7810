//! `java.lang.StrictMath`, which Spark computes with: fdlibm's algorithms, whose
//! last digit may differ from what the machine's own library gives.

/// `StrictMath.exp` (fdlibm's `e_exp.c`): reduced to |r| <= ln 2 / 2, then a rational approximation.
#[allow(clippy::excessive_precision, clippy::many_single_char_names, clippy::cast_possible_truncation)]
pub fn exp(x: f64) -> f64 {
    const LARGEST: f64 = 7.097_827_128_933_839_730_96e2;
    const SMALLEST: f64 = -7.451_332_191_019_411_084_20e2;
    const LN2_HIGH: f64 = 6.931_471_803_691_238_164_90e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_700_02e-10;
    const INVERSE_LN2: f64 = 1.442_695_040_888_963_387_00;
    const P: [f64; 5] = [
        1.666_666_666_666_660_190_37e-1,
        -2.777_777_777_701_559_338_42e-3,
        6.613_756_321_437_934_361_17e-5,
        -1.653_390_220_546_525_153_90e-6,
        4.138_136_797_057_238_460_39e-8,
    ];
    if x.is_nan() {
        return x;
    }
    if x > LARGEST {
        return f64::INFINITY;
    }
    if x < SMALLEST {
        return 0.0;
    }
    let high_word = (x.abs().to_bits() >> 32) as u32;
    if high_word < 0x3e30_0000 {
        return 1.0 + x;
    }
    let sign = 1.0_f64.copysign(x);
    let (high, low, power) = if high_word <= 0x3fd6_2e42 {
        (x, 0.0, 0)
    } else if high_word < 0x3ff0_a2b2 {
        (x - sign * LN2_HIGH, sign * LN2_LOW, sign as i32)
    } else {
        let power = (INVERSE_LN2 * x + 0.5 * sign) as i32;
        (x - f64::from(power) * LN2_HIGH, f64::from(power) * LN2_LOW, power)
    };
    let r = high - low;
    let t = r * r;
    let c = r - t * (P[0] + t * (P[1] + t * (P[2] + t * (P[3] + t * P[4]))));
    if power == 0 {
        return 1.0 - ((r * c) / (c - 2.0) - r);
    }
    let y = 1.0 - ((low - (r * c) / (2.0 - c)) - high);
    // Two steps, so that neither factor leaves the range.
    let half = power / 2;
    y * 2.0_f64.powi(half) * 2.0_f64.powi(power - half)
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn the_last_digit_is_javas() {
        for (x, expected) in [
            (1.0, 2.718_281_828_459_045_5),
            (0.0, 1.0),
            (-1.0, 0.367_879_441_171_442_33),
            (2.5, 12.182_493_960_703_473),
            (100.0, 2.688_117_141_816_135_6e43),
            (1e-12, 1.000_000_000_001),
            (710.0, f64::INFINITY),
            (-746.0, 0.0),
            (f64::NEG_INFINITY, 0.0),
        ] {
            assert_eq!(exp(x), expected, "{x}");
        }
        assert!(exp(f64::NAN).is_nan() && exp(709.7).is_finite() && exp(-745.0) > 0.0);
    }
}
