// Special functions that CUDA's math library lacks, for float and double, under the names of the primitives. CUDA's own erf, erfc, erfcx,
// erfinv, lgamma, j0, j1, y0, y1, cyl_bessel_i0 and cyl_bessel_i1 need no version here: they have the CPU's values at the edges too.
//
// DLMF is the NIST Digital Library of Mathematical Functions. The coefficients of Chebyshev series are cosine sums over 72 nodes of values
// that mpmath computed with 45 digits. The numbers in parentheses after a description bound the terms left out for double and for float.

namespace special {

constexpr double PI = 3.14159265358979323846, EULER = 0.57721566490153286061, LOG_2 = 0.69314718055994530942;
template <typename T> constexpr bool SINGLE = sizeof(T) == 4;

// The Chebyshev series c[0] + c[1] T1(x) + ... by Clenshaw's recurrence, with the first M coefficients for float.
template <int M, typename T, int N> INLINE T chebyshev(T x, const double (&c)[N]) {
  T a = 0, b = 0;
#pragma unroll
  for (int k = (SINGLE<T> ? M : N) - 1; k > 0; --k) {
    const T next = 2 * x * a - b + (T)c[k];
    b = a;
    a = next;
  }
  return x * a - b + (T)c[0];
}

// -- elementary --------------------------------------------------------------------------------------------------------------

template <typename T> INLINE T entr(T x) { return x > 0 ? -x * log(x) : x == 0 ? 0 : x != x ? x : (T)-INFINITY; }
template <typename T> INLINE T sinc(T x) { return x == 0 ? 1 : sinpi(x) / ((T)PI * x); }
template <typename T> INLINE T xlogy(T x, T y) { return x == 0 && y == y ? 0 : x * log(y); }
template <typename T> INLINE T xlog1py(T x, T y) { return x == 0 && y == y ? 0 : x * log1p(y); }

// As NumPy has them: frexp's exponent of inf and nan is 0, and ldexp's may be any integer.
template <typename T> INLINE T frexp(T x, int32_t& n) {
  n = 0;
  return isfinite(x) ? ::frexp(x, &n) : x;
}
template <typename T, typename N> INLINE T ldexp(T x, N n) { return ::ldexp(x, n > 5000 ? 5000 : n < -5000 ? -5000 : (int)n); }

// -- the normal distribution -------------------------------------------------------------------------------------------------

template <typename T> INLINE T ndtr(T x) { return normcdf(x); }
template <typename T> INLINE T ndtri(T p) { return normcdfinv(p); }
template <typename T> INLINE T log_ndtr(T x) {  // by erfcx (DLMF 7.2.2) where ndtr may underflow
  return x < -1 ? log(erfcx(-x * (T)0.70710678118654752440) / 2) - x / 2 * x : log1p(-normcdf(-x));
}

// -- derivatives of log gamma ------------------------------------------------------------------------------------------------

// digamma(x) / (x - zero) on [1, 2], in 2 x - 3 (2e-17, 5e-9). The zero is PSI_ZERO + PSI_ZERO_REST.
constexpr double PSI_ZERO = 1.4616321449683622, PSI_ZERO_REST = 9.549995429965697e-17;
constexpr double PSI[] = {
  0.983570260441567, -0.2270640863346444, 0.03336889902393011, -0.005320077271596548, 0.0008788656937820505, -0.0001477349265060604,
  2.50605434683591e-5, -4.2721034029993e-6, 7.302769272466e-7, -1.250288681356e-7, 2.14250093224e-8, -3.6732959186e-9, 6.299717236e-10,
  -1.080593029e-10, 1.8537352e-11, -3.1802354e-12, 5.456148e-13, -9.361e-14, 1.60606e-14, -2.7555e-15, 4.728e-16, -8.11e-17};

// By reflection for x < 0 (DLMF 5.5.4), recurrence to [1, 2] below 10 (5.5.2), and the asymptotic series from 10 (5.11.2; 5e-17, 5e-11).
// Near the zeros for x < 0 the error is relative to the two terms of the reflection, which cancel.
template <typename T> INLINE T digamma(T x) {
  if (x == 0) return copysign((T)INFINITY, -x);
  T sum = 0;
  if (x < 0) {
    if (x == floor(x)) return NAN;
    sum = -(T)PI * cospi(x) / sinpi(x);
    x = 1 - x;
  }
  if (x >= 10) {
    const T y = 1 / (x * x), rest = SINGLE<T> ? 0 : y * ((T)(1 / 240.) - y * ((T)(1 / 132.) - y * ((T)(691 / 32760.) - y / 12)));
    return sum + (log(x) - (T)0.5 / x - y * ((T)(1 / 12.) - y * ((T)(1 / 120.) - y * ((T)(1 / 252.) - rest))));
  }
  if (x < 1) {
    sum -= 1 / x;
    x += 1;
  }
  while (x > 2) {
    x -= 1;
    sum += 1 / x;
  }
  const T rest = (T)(PSI_ZERO - (double)(T)PSI_ZERO + PSI_ZERO_REST);
  return sum + (x - (T)PSI_ZERO - rest) * chebyshev<11>(2 * x - 3, PSI);
}

// B(2 j) / (2 j)! for j = 1, 2, ..., with the Bernoulli numbers B.
constexpr double BERNOULLI[] = {
  1 / 12., -1 / 720., 1 / 30240., -1 / 1209600., 1 / 47900160., -691 / 1307674368000., 1 / 74724249600., -3617 / 10670622842880000.,
  43867 / 5109094217170944000., -174611 / 802857662698291200000., 77683 / 14101100039391805440000.,
  -236364091 / 1693824136731743669452800000.};

// The sum of (q + k)^-s over k = 0, 1, ... for s > 1 and q > 0, by the Euler-Maclaurin formula (DLMF 2.10.1) after the first terms. Where
// the formula would not converge, s much larger than q, the first terms are all. For float q + k is rounded: the error is up to s 2^-24.
template <typename T> __device__ T power_sum(T s, T q) {
  constexpr int first = SINGLE<T> ? 5 : 10, corrections = SINGLE<T> ? 4 : 12;
  T sum = 0;
#pragma unroll 1
  for (int k = 0; k < first; ++k) sum += pow(q + (T)k, -s);
  const T a = q + (T)first;
  T term = pow(a, 1 - s);
  if (term == 0) return sum;
  sum += term / (s - 1);
  term /= a;
  sum += term / 2;
  term *= s / a;
#pragma unroll
  for (int j = 0; j < corrections; ++j) {
    sum += term * (T)BERNOULLI[j];
    term *= (s + (T)(2 * j + 1)) / a * ((s + (T)(2 * j + 2)) / a);
  }
  return sum;
}

// Hurwitz's zeta function. For q < 0 and whole s, the sum from q is that over all integers, which has period 1, less that below q.
template <typename T> INLINE T zeta(T s, T q) {
  if (s == 1) return INFINITY;
  if (!(s > 1)) return NAN;
  if (q > 0) return power_sum(s, q);
  if (q == floor(q)) return INFINITY;
  if (s != floor(s)) return NAN;
  const T below = power_sum(s, -q - floor(-q)) - power_sum(s, 1 - q);
  return power_sum(s, q - floor(q)) + (fmod(s, (T)2) == 0 ? below : -below);
}

// (-1)^(n + 1) n! zeta(n + 1, x), DLMF 25.11.12; in double for n > 2, where a factor may be out of float's range.
template <typename T> INLINE T polygamma(T x, int n) {
  if (n == 0) return digamma(x);
  if (n == 1) return x == -INFINITY ? (T)NAN : zeta((T)2, x);
  if (n == 2) return -2 * zeta((T)3, x);
  return (T)((n % 2 ? 1 : -1) * tgamma(n + 1.0) * zeta(n + 1.0, (double)x));
}

// -- incomplete gamma functions ----------------------------------------------------------------------------------------------

// log gamma(1 + a) / a on [0, 1], in 2 a - 1 (2e-18).
constexpr double LOG_GAMMA[] = {
  -0.2647362369323025, 0.28587285859139466, -0.0235145763321575, 0.002685079974656731, -0.000349755271572756, 4.88075532000324e-5,
  -7.0983587904858e-6, 1.0607466166815e-6, -1.615593385844e-7, 2.49552180123e-8, -3.8966973451e-9, 6.137352658e-10, -9.73496611e-11,
  1.55330156e-11, -2.4909467e-12, 4.012023e-13, -6.48658e-14, 1.05227e-14, -1.7121e-15, 2.793e-16, -4.57e-17, 7.5e-18};
// The Taylor coefficients of eta / (lambda - 1), where eta^2 / 2 = lambda - 1 - log lambda, from the recurrence of lambda's, which are
// rational numbers (for |eta| < 1: 2e-17, 5e-9).
constexpr double TEMME[] = {
  1, -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218,
  3.91926317852244e-5, -2.18544851068e-6, -1.8540622107152e-6, 8.296711340953e-7, -1.766595273683e-7, 6.7078535434e-9, 1.02618097842e-8,
  -4.3820360185e-9, 9.147699582e-10, -2.5514194e-11, -5.83077213e-11, 2.4361948e-11, -5.0276693e-12, 1.10044e-13, 3.371763e-13,
  -1.392389e-13, 2.85349e-14, -5.14e-16, -1.9752e-15, 8.1e-16, -1.652e-16};

// The regularized incomplete gamma functions Q (upper) and P of (a, x), whose sum is 1. In double also for float: exponents reach
// 100, and then a float's rounding alone changes the result by 1e-5. Loops end at T's precision.
template <typename T> INLINE double gamma_ratio(double a, double x, bool upper) {
  constexpr double small = SINGLE<T> ? 1e-9 : 4e-16;
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return NAN;
  if (x == 0 || isinf(a)) return upper;
  if (a == 0 || isinf(x)) return !upper;
  double density;  // x^a exp(-x) / gamma(a + 1)
  if (a > 20) {
    const double mu = (x - a) / a;
    double phi = mu - log(x / a);  // mu - log(1 + mu)
    if (mu > -0.6 && mu < 1.5) {   // by the series of log((1 + r) / (1 - r)), where the terms above would cancel
      const double r = mu / (2 + mu), square = r * r;
      double sum = 0;
#pragma unroll
      for (int k = 22; k >= 0; --k) sum = sum * square + 1.0 / (2 * k + 3);
      phi = mu * r - 2 * r * square * sum;
    }
    const double scale = exp(-a * phi) / sqrt(2 * PI * a);
    if (phi < 0.5) {
      // Temme's uniform expansion (DLMF 8.12), summed as in his "The asymptotic expansion of the incomplete gamma functions" (1979): its
      // coefficients in powers of eta follow backwards from those of eta / (lambda - 1), and also give Stirling's factor 1 + b1 / a.
      const double eta = copysign(sqrt(2 * phi), mu);
      double b0 = 0, b1 = 0, sum = 0;
#pragma unroll
      for (int k = SINGLE<T> ? 13 : 27; k > 0; --k) {
        const double next = TEMME[k] + (k + 1) / a * b1;
        b1 = b0;
        b0 = next;
        sum = b0 + eta * sum;
      }
      const double tail = erfc(sqrt(a * phi)) / 2 + (eta < 0 ? -scale : scale) * sum / (1 + b1 / a);
      return (eta >= 0) == upper ? tail : 1 - tail;
    }
    const double y = 1 / (a * a);
    density = scale * exp((-1 / 12. + y * (1 / 360. - y * (1 / 1260. - y / 1680))) / a);  // Stirling's series, DLMF 5.11.1
  } else {
    if (x > 1490) return !upper;
    const double half = exp(-x / 2);  // exp(-x) may underflow where the product does not
    density = pow(x, a) * half / tgamma(a + 1) * half;
  }
  if (upper && a < 1 && x <= 1) {  // Q may be small: 1 - P by P's alternating series (DLMF 8.7.1), without rounding its first term, near 1
    const double power = a * (log(x) - chebyshev<22>(2 * a - 1, LOG_GAMMA));
    double term = 1, sum = 0;
    for (int k = 1; fabs(term) > small * fabs(sum); ++k) {
      term *= -x / k;
      sum += term / (a + k);
    }
    return -expm1(power) - exp(power) * a * sum;
  }
  if (x <= a || x <= 1) {  // DLMF 8.7.1, all terms positive
    double term = 1, sum = 1;
    for (int k = 1; term > small * sum; ++k) {
      term *= x / (a + k);
      sum += term;
    }
    return upper ? 1 - density * sum : density * sum;
  }
  // The continued fraction of Q (DLMF 8.9.2, its even part) by Lentz's method.
  double b = x + 1 - a, c = INFINITY, d = 1 / b, fraction = d, change = 0;
  for (int k = 1; k < 500 && fabs(change - 1) > small; ++k) {
    const double numerator = k * (a - k);
    b += 2;
    d = 1 / (b + numerator * d);
    c = b + numerator / c;
    change = c * d;
    fraction *= change;
  }
  return upper ? density * a * fraction : 1 - density * a * fraction;
}
template <typename T> INLINE T igamma(T a, T x) { return (T)gamma_ratio<T>(a, x, false); }
template <typename T> INLINE T igammac(T a, T x) { return (T)gamma_ratio<T>(a, x, true); }

// -- modified Bessel functions -----------------------------------------------------------------------------------------------

// sqrt(x) exp(-x) I0(x) and I1(x) for x > 8, in 16 / x - 1 (2e-17, 7e-10); sqrt(x) exp(x) K0(x) and K1(x) for x > 1, in 2 / x - 1
// (5e-17, 3e-9).
constexpr double I0[] = {
  0.4022452055070544, 0.0033691164782556943, 6.88975834691682e-5, 2.8913705208348e-6, 2.04891858947e-7, 2.2666689905e-8, 3.3962320257e-9,
  4.940602388e-10, 1.18891471e-11, -3.14991653e-11, -1.32158118e-11, -1.7941785e-12, 7.180124e-13, 3.852778e-13, 1.54009e-14, -4.15057e-14,
  -9.5548e-15, 3.8117e-15, 1.7726e-15, -3.425e-16, -2.828e-16, 3.46e-17, 4.47e-17};
constexpr double I1[] = {
  0.38928811750914005, -0.009761097491361469, -0.0001105889387626237, -3.8825648088777e-6, -2.51223623787e-7, -2.63146884689e-8,
  -3.835380386e-9, -5.589743462e-10, -1.89749581e-11, 3.25260358e-11, 1.41258074e-11, 2.0356285e-12, -7.198552e-13, -4.083551e-13,
  -2.10154e-14, 4.27244e-14, 1.04203e-14, -3.8144e-15, -1.8804e-15, 3.308e-16, 2.963e-16, -3.2e-17, -4.65e-17};
constexpr double K0[] = {
  1.1944330762167386, -0.053855323307629495, 0.004362000068251702, -0.0005521270349863234, 8.95956555575595e-5, -1.71387268564212e-5,
  3.6951460890455e-6, -8.73728451898e-7, 2.225046272255e-7, -6.02521675638e-8, 1.71866686294e-8, -5.127205781e-9, 1.5907351468e-9,
  -5.109583258e-10, 1.692951742e-10, -5.76830638e-11, 2.01595426e-11, -7.21094e-12, 2.6349076e-12, -9.819577e-13, 3.726958e-13,
  -1.438815e-13, 5.64365e-14, -2.24693e-14, 9.072e-15, -3.7116e-15, 1.5376e-15, -6.445e-16, 2.732e-16, -1.17e-16, 5.07e-17};
constexpr double K1[] = {
  1.4532756675938414, 0.19051350202061165, -0.008406706460495654, 0.0008815363164514389, -0.000129995769583983, 2.3441638979785e-5,
  -4.8534894136102e-6, 1.1139969511197e-6, -2.772707643805e-7, 7.37247184978e-8, -2.0717892129e-8, 6.1039665494e-9, -1.873778918e-9,
  5.963886884e-10, -1.96028004e-10, 6.6322739e-11, -2.30342507e-11, 8.1930825e-12, -2.9786645e-12, 1.1049772e-12, -4.176328e-13,
  1.606114e-13, -6.27763e-14, 2.49118e-14, -1.00278e-14, 4.091e-15, -1.6903e-15, 7.068e-16, -2.99e-16, 1.278e-16, -5.52e-17};

// exp(-|x|) I0(x) and I1(x): up to 8 by the power series, DLMF 10.25.2, all terms positive.
template <int NU, typename T> INLINE T scaled_i(T x) {
  const T size = fabs(x);
  T value;
  if (size <= 8) {
    const T square = x * x / 4;
    value = 1;
#pragma unroll
    for (int k = SINGLE<T> ? 17 : 25; k > 0; --k) value = 1 + value * (square * (T)(1.0 / (k * (k + NU))));
    value *= exp(-size) * (NU ? size / 2 : 1);
  } else {
    value = (NU ? chebyshev<7>(16 / size - 1, I1) : chebyshev<7>(16 / size - 1, I0)) / sqrt(size);
  }
  return NU ? copysign(value, x) : value;
}
template <typename T> INLINE T i0e(T x) { return scaled_i<0>(x); }
template <typename T> INLINE T i1e(T x) { return scaled_i<1>(x); }

// K0(x) and K1(x), times exp(x) if SCALED: up to 1 by the power series, DLMF 10.31.1 and 10.31.2.
template <int NU, bool SCALED, typename T> INLINE T modified_k(T x) {
  if (!(x > 0)) return x == 0 ? (T)INFINITY : (T)NAN;
  if (x > 1) return (NU ? chebyshev<12>(2 / x - 1, K1) : chebyshev<12>(2 / x - 1, K0)) / sqrt(x) * (SCALED ? 1 : exp(-x));
  const T square = x * x / 4, begin = (T)(LOG_2 - EULER) - log(x);
  T term = 1, sum = 0;
  double harmonic = 0;  // constant in each turn of the unrolled loop
#pragma unroll
  for (int k = 0; k < (SINGLE<T> ? 5 : 9); ++k) {
    sum += term * (begin + (T)(harmonic + NU * 0.5 / (k + 1)));
    term *= square * (T)(1.0 / ((k + 1) * (k + 1 + NU)));
    harmonic += 1.0 / (k + 1);
  }
  return (NU ? 1 / x - x / 2 * sum : sum) * (SCALED ? exp(x) : 1);
}
template <typename T> INLINE T modified_bessel_k0(T x) { return modified_k<0, false>(x); }
template <typename T> INLINE T modified_bessel_k1(T x) { return modified_k<1, false>(x); }
template <typename T> INLINE T scaled_modified_bessel_k0(T x) { return modified_k<0, true>(x); }
template <typename T> INLINE T scaled_modified_bessel_k1(T x) { return modified_k<1, true>(x); }

// -- the Airy function -------------------------------------------------------------------------------------------------------

// Ai and its derivative at -8, -7, ..., 8.
constexpr double AI[] = {
  -0.0527050503563862, 0.18428083525050565, -0.3291451736298231, 0.35076100902411433, -0.07026553294928951, -0.37881429367765806,
  0.22740742820168558, 0.5355608832923521, 0.3550280538878172, 0.13529241631288141, 0.03492413042327438, 0.006591139357460719,
  0.0009515638512048018, 0.00010834442813607442, 9.947694360252889e-6, 7.492128863997167e-7, 4.6922076160992316e-8};
constexpr double AI_SLOPE[] = {
  0.9355609381983065, -0.7710081684101265, 0.3459354872813429, 0.32719281855444315, -0.7906285753685813, 0.3145837692165988,
  0.618259020741691, -0.01016056711664521, -0.2588194037928068, -0.1591474412967932, -0.05309038443365363, -0.011912976705951319,
  -0.001958640950204179, -0.0002474138908684625, -2.4765200397034955e-5, -2.008150894738792e-6, -1.3414392979067865e-7};

// Ai or its derivative. Near 0 by the Taylor series around the nearest integer, whose coefficients follow from y'' = x y. Beyond, by the
// asymptotic series (DLMF 9.7.5, 9.7.6, 9.7.9, 9.7.10) in double also for float, since an error of zeta is one of the phase and of the
// exponent: for x < 0 the result's error is 2^-53 zeta of the envelope.
template <bool SLOPE, typename T> INLINE T airy(T x) {
  if (isinf(x)) return NAN;  // as SciPy and PyTorch have it
  if (fabs(x) <= (SINGLE<T> ? (T)5.5 : (T)8.5)) {
    const T middle = rint(x), step = x - middle;
    const int at = (int)middle + 8;
    T previous = 0, here = (T)AI[at], next = (T)AI_SLOPE[at], power = 1, sum = 0;  // coefficients n - 1, n and n + 1
#pragma unroll
    for (int n = 0; n < (SINGLE<T> ? 13 : 23); ++n) {
      sum += (SLOPE ? (n + 1) * next : here) * power;
      const T after = (middle * here + previous) * (T)(1.0 / ((n + 1) * (n + 2)));
      previous = here;
      here = next;
      next = after;
      power *= step;
    }
    return sum;
  }
  const double size = fabs((double)x), root = sqrt(size), zeta = 2 / 3. * size * root, inverse = 1 / zeta;
  double term = 1, even = 1, odd = 0;  // the sums of the terms of even and of odd powers
#pragma unroll
  for (int k = 1; k <= (SINGLE<T> ? 14 : 30); ++k) {
    term *= inverse * ((6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216. * k * (2 * k - 1)));
    (k & 1 ? odd : even) += (x < 0 && k & 2 ? -term : term) * (SLOPE ? (6 * k + 1) / (1. - 6 * k) : 1);
  }
  const double scale = SLOPE ? sqrt(root / PI) : 1 / sqrt(root * PI);
  if (x > 0) return (T)((SLOPE ? -0.5 : 0.5) * scale * exp(-zeta) * (even - odd));
  const double c = (cos(zeta) + sin(zeta)) * 0.70710678118654752440, s = (sin(zeta) - cos(zeta)) * 0.70710678118654752440;
  return (T)(scale * (SLOPE ? s * even - c * odd : c * even + s * odd));  // c and s: cosine and sine of zeta - pi / 4
}
template <typename T> INLINE T airy_ai(T x) { return airy<false>(x); }
template <typename T> INLINE T airy_ai_slope(T x) { return airy<true>(x); }

// -- orthogonal polynomials --------------------------------------------------------------------------------------------------

enum Family {
  chebyshev_t, chebyshev_u, chebyshev_v, chebyshev_w, shifted_chebyshev_t, shifted_chebyshev_u, shifted_chebyshev_v, shifted_chebyshev_w,
  hermite_h, hermite_he, laguerre_l, legendre_p
};

// The derivative of order ORDER of the family's polynomial of degree n, rounded towards 0; 0 for other n. By the recurrence
// p[k + 1] = (a x + b) p[k] - c p[k - 1] (DLMF 18.9) and its derivatives.
template <Family F, int ORDER, typename T, typename N> INLINE T polynomial(T x, N n) {
  if (!(n > -1 && n < 1e18f)) return 0;
  const int64_t degree = (int64_t)n;
  T before[ORDER + 1] = {}, now[ORDER + 1] = {1};  // at degrees k - 1 and k
  for (int64_t k = 0; k < degree; ++k) {
    const T t = (T)k;
    T a = 2, b = 0, c = 1;  // of Chebyshev's families for k > 0
    if (F == hermite_h) c = 2 * t;
    if (F == hermite_he) { a = 1; c = t; }
    if (F == laguerre_l) { a = -1 / (t + 1); b = (2 * t + 1) / (t + 1); c = t / (t + 1); }
    if (F == legendre_p) { a = (2 * t + 1) / (t + 1); c = t / (t + 1); }
    if (F < hermite_h) {
      if (k == 0) { a = F % 4 == chebyshev_t ? 1 : 2; b = F % 4 == chebyshev_v ? -1 : F % 4 == chebyshev_w ? 1 : 0; }
      if (F >= shifted_chebyshev_t) { b -= a; a *= 2; }  // x becomes 2 x - 1
    }
#pragma unroll
    for (int m = ORDER; m >= 0; --m) {  // the highest first: it needs the next lower one at degree k
      const T next = (a * x + b) * now[m] - c * before[m] + (m ? m * a * now[m - 1] : 0);
      before[m] = now[m];
      now[m] = next;
    }
  }
  return now[ORDER];
}

}  // namespace special
