//! Floats of eight bits, as PyTorch's `float8_e4m3fn` and `float8_e5m2`.

/// Format of a sign, an exponent and a mantissa in eight bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fp8 {
    /// Bits of the mantissa.
    mantissa: i32,
    bias: i32,
    /// Code of the largest finite value.
    largest: i32,
}

/// Three bits of mantissa, values up to 448; the only code that is not finite is NaN.
pub(crate) const E4M3: Fp8 = Fp8 { mantissa: 3, bias: 7, largest: 0x7e };

/// Two bits of mantissa, values up to 57344.
pub(crate) const E5M2: Fp8 = Fp8 { mantissa: 2, bias: 15, largest: 0x7b };

/// Sign bit.
const NEGATIVE: u8 = 0x80;

impl Fp8 {
    /// Code of the nearest value, of two equally near the even one; `None` if that is beyond the finite values.
    pub(crate) fn encode(self, value: f32) -> Option<u8> {
        let magnitude = value.abs();
        if !magnitude.is_finite() {
            return None;
        }
        // The exponent of a value below the normal ones is the smallest.
        let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(1 - self.bias);
        let steps = (f64::from(magnitude) * 2f64.powi(self.mantissa - exponent)).round_ties_even() as i32;
        // The leading bit of a normal value's steps, and a carry, go into the exponent.
        let code = ((exponent + self.bias - 1) << self.mantissa) + steps;
        let sign = if value.is_sign_negative() { NEGATIVE } else { 0 };
        u8::try_from(code).ok().filter(|_| code <= self.largest).map(|code| code | sign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value of a code without its sign.
    fn decoded(format: Fp8, code: i32) -> f32 {
        let (field, rest) = (code >> format.mantissa, code & ((1 << format.mantissa) - 1));
        let (exponent, steps) = if field == 0 { (1, rest) } else { (field, rest + (1 << format.mantissa)) };
        (f64::from(steps) * 2f64.powi(exponent - format.bias - format.mantissa)) as f32
    }

    #[test]
    fn values_are_rounded_to_the_nearest_and_ties_to_even() {
        for format in [E4M3, E5M2] {
            for code in 0..format.largest {
                let (low, high) = (decoded(format, code), decoded(format, code + 1));
                assert_eq!(format.encode(low), u8::try_from(code).ok());
                assert_eq!(format.encode(-low), u8::try_from(code | 0x80).ok());
                let middle = (low + high) / 2.0;
                let even = code + (code & 1);
                assert_eq!(format.encode(middle), u8::try_from(even).ok(), "{middle}");
                assert_eq!(format.encode(middle.next_down()), u8::try_from(code).ok(), "{middle}");
                assert_eq!(format.encode(middle.next_up()), u8::try_from(code + 1).ok(), "{middle}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_has_no_code() {
        for (format, largest, beyond) in [(E4M3, 448.0, 464.1), (E5M2, 57_344.0, 61_440.0)] {
            assert_eq!(format.encode(largest), u8::try_from(format.largest).ok());
            for value in [beyond, f32::MAX, f32::INFINITY, f32::NAN] {
                assert_eq!(format.encode(value), None, "{value}");
            }
        }
        assert_eq!(E4M3.encode(464.0), Some(0x7e), "a tie to the even code");
        assert_eq!(
            (E4M3.encode(1.0), E5M2.encode(-1.0), E4M3.encode(f32::MIN_POSITIVE)),
            (Some(0x38), Some(0xbc), Some(0))
        );
    }
}
