"""Real packages from PyPI, adopted as they are: the extra `adopt` has their versions.

For each, some functions: the copy gives the original's results to the last bit, the gradient agrees with finite differences, and
the compiled gradient with the gradient. A package that is not installed is skipped.
"""

import importlib
import importlib.util

import numpy
import pytest

import adjoint as ad
import adjoint.numpy

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages' own
CASES = {}
#: Cases that run eagerly under jit, and why: see docs/adopt.md.
EAGER = {"emt": "neighbours", "lennard_jones": "neighbours"}


def package(needed):
    """Declare the cases of a package: a function of (load, np) that gives functions and points, by name."""
    return lambda f: CASES.setdefault(needed, f)


@package("iapws")
def steam(load, np):
    m = load("iapws.iapws97")
    yield "liquid", lambda T: m._Region1(T, 3.0)["v"], 300.0
    yield "vapour", lambda T: m._Region2(T, 0.1)["h"], 450.0
    yield "saturation", m._PSat_T, 400.0
    yield "backward", lambda h: m._Backward1_T_Ph(3.0, h), 500.0
    yield "state", lambda T: m.IAPWS97(T=T, P=1.0).h, 400.0
    yield "by enthalpy and entropy", lambda h: m.IAPWS97(h=h, s=7.0).T, 3000.0


@package("filterpy")
def kalman(load, np):
    kalman, common = load("filterpy.kalman"), load("filterpy.common")
    F, H = numpy.array([[1.0, 1.0], [0.0, 1.0]]), numpy.array([[1.0, 0.0]])

    def likelihood(q):
        f = kalman.KalmanFilter(dim_x=2, dim_z=1)
        f.x, f.F, f.H, f.P, f.R = numpy.array([[0.0], [1.0]]), F, H, f.P * 10.0, f.R * 5.0
        f.Q = common.Q_discrete_white_noise(dim=2, dt=1.0, var=q)
        total = 0.0
        for z in (1.1, 1.9, 3.2):
            f.predict()
            f.update(z)
            total = total + f.log_likelihood
        return total

    def unscented(p):
        points = kalman.MerweScaledSigmaPoints(2, alpha=0.1, beta=2.0, kappa=1.0)
        f = kalman.UnscentedKalmanFilter(2, 1, 1.0, hx=lambda x: x[:1] ** 2, fx=lambda x, dt: F @ x, points=points)
        f.x, f.P = numpy.array([0.5, 1.0]), f.P * p
        f.predict()
        f.update(1.1)
        return f.x[0]

    yield "likelihood", likelihood, 0.13
    yield "noise", lambda dt: common.Q_discrete_white_noise(3, dt, 2.0)[0, 1], 0.5
    yield "unscented", unscented, 0.3


@package("ahrs")
def attitude(load, np):
    o = load("ahrs.common.orientation")
    q = numpy.array([0.9, 0.2, 0.3, 0.1])
    yield "q2R", lambda q: o.q2R(q)[0, 1], q
    yield "ecompass", lambda a: o.ecompass(a, numpy.array([20.0, 3.0, 40.0]))[0, 1], numpy.array([0.1, 0.2, 9.7])
    yield "acc2q", lambda a: o.acc2q(a)[1], numpy.array([0.1, 0.2, 9.7])
    yield "product", lambda p: o.q_prod(p, q.copy())[2], q


@package("transforms3d")
def rotations(load, np):
    m = load("transforms3d")
    angles = numpy.array([0.1, 0.2, 0.3])
    yield "euler2mat", lambda x: m.euler.euler2mat(*x)[0, 1], angles
    yield "mat2euler", lambda x: m.euler.mat2euler(m.euler.euler2mat(*x))[1], angles
    yield "mat2quat", lambda x: m.quaternions.mat2quat(m.euler.euler2mat(*x))[1], angles
    yield "axangle", lambda x: m.axangles.axangle2mat(x, 0.3)[0, 1], angles


@package("fluids")
def flow(load, np):
    m = load("fluids")
    orifice = {"m": 7.7, "P1": 2e5, "P2": 1.83e5, "rho": 1e3, "mu": 1e-3, "k": 1.3, "meter_type": "ISO 5167 orifice", "taps": "D"}
    yield "friction", lambda Re: m.friction_factor(Re=Re, eD=1e-4), 1e5
    yield "loss", lambda V: m.dP_from_K(K=10.0, rho=1000.0, V=V), 3.0
    yield "atmosphere", lambda Z: m.ATMOSPHERE_1976(Z).P, 5000.0
    yield "orifice", lambda D: m.differential_pressure_meter_C_epsilon(D, 0.05, **orifice)[0], 0.07


@package("chemicals")
def mixtures(load, np):
    m = load("chemicals")
    yield "vapour pressure", lambda T: m.Lee_Kesler(T, Tc=617.1, Pc=36e5, omega=0.299), 347.2
    yield "Antoine", lambda T: m.Antoine(T, A=8.95, B=595.0, C=-1.8), 100.0
    yield "viscosity", lambda T: m.Letsou_Stiel(T, 46.07, 516.25, 6.383e6, 0.6371), 400.0
    yield "flash", lambda K: m.Rachford_Rice_solution(zs=[0.5, 0.3, 0.2], Ks=list(K))[0], numpy.array([1.685, 0.742, 0.532])


@package("pyquaternion")
def quaternions(load, np):
    Q = load("pyquaternion").Quaternion
    x = numpy.array([0.1, 0.2, 0.3, 0.4])
    yield "rotate", lambda w: Q(axis=[1, 0, 0], angle=w).rotate([0.0, 1.0, 2.0])[1], 0.3
    yield "slerp", lambda w: Q.slerp(Q(axis=[1, 0, 0], angle=w), Q(axis=[0, 1, 0], angle=1.0), 0.3).elements[2], 0.3
    yield "exp", lambda x: Q.exp(Q(*x)).norm, x
    yield "log", lambda x: Q.log(Q(array=x)).elements[1], x


POSITIONS = numpy.array([[0.0, 0.0, 0.0], [2.6, 0.1, 0.0], [0.2, 2.5, 0.3]])


def energy(load, calculator, symbols, positions):
    atoms = load("ase").Atoms(symbols, positions=positions)
    atoms.calc = calculator()
    return atoms.get_potential_energy()


@package("ase")
def molecules(load, np):
    emt, lj, cell = load("ase.calculators.emt"), load("ase.calculators.lj"), load("ase.geometry")
    yield "emt", lambda x: energy(load, emt.EMT, "Cu3", x), POSITIONS
    yield "lennard_jones", lambda x: energy(load, lambda: lj.LennardJones(sigma=2.3, epsilon=0.1, rc=6.0), "Ar3", x), POSITIONS
    yield "cell", lambda a: cell.cellpar_to_cell([a[0], 4.0, 5.0, 80.0, a[1], 70.0])[2, 1], numpy.array([3.0, 85.0])


@package("colour")
def colours(load, np):
    m = load("colour")
    xyz, lab = numpy.array([0.2, 0.12, 0.05]), numpy.array([50.0, 20.0, 10.0])
    yield "Lab", lambda x: m.XYZ_to_Lab(x)[1], xyz
    yield "sRGB", lambda x: m.XYZ_to_sRGB(x)[0], xyz
    yield "Luv", lambda x: m.XYZ_to_Luv(x)[2], xyz
    yield "difference", lambda x: m.delta_E(x, lab, method="CIE 2000"), numpy.array([50.0, 10.5, 13.5])


@package("pvlib")
def solar(load, np):
    m = load("pvlib")
    yield "diffuse", lambda x: m.irradiance.haydavies(x[0], x[1], 100.0, 900.0, 1400.0, 40.0, 170.0), numpy.array([30.0, 180.0])
    yield "incidence", lambda x: m.irradiance.aoi(x[0], x[1], 40.0, 170.0), numpy.array([30.0, 180.0])
    yield "diode", lambda v: m.pvsystem.i_from_v(v, 7.0, 1e-9, 0.3, 300.0, 1.6), 20.0
    yield "temperature", lambda x: m.temperature.sapm_cell(*x, -3.47, -0.0594, 3.0), numpy.array([800.0, 20.0, 3.0])
    yield "power", lambda i: m.pvsystem.max_power_point(i, 1e-9, 0.3, 300.0, 1.6, method="newton")["p_mp"], 7.0
    yield "airmass", m.atmosphere.get_relative_airmass, 50.0


@package("quantecon")
def economics(load, np):
    m = load("quantecon")

    def control(q):
        A, B = numpy.array([[1.0, 0.1], [0.0, 0.9]]), numpy.array([[0.0], [1.0]])
        lq = m.LQ(np.array([[q]]), numpy.diag([1.0, 2.0]), A, B, beta=0.95, T=3, Rf=numpy.eye(2))
        for _ in range(3):
            lq.update_values()
        return lq.P[0, 0]

    yield "control", control, 0.7
    yield "lyapunov", lambda x: m.solve_discrete_lyapunov(np.array([[0.5, 0.1], [0.0, x]]), numpy.eye(2))[0, 0], 0.7
    yield "gini", m.gini_coefficient, numpy.array([1.0, 4.0, 2.5])
    yield "stationary", lambda x: m.markov.gth_solve(np.array([[1 - x, x], [0.3, 0.7]]))[0], 0.4


@package("skrf")
def networks(load, np):
    m = load("skrf")

    def cascade(c):
        frequency = m.Frequency(1, 2, 3, "ghz")
        medium = m.media.DefinedGammaZ0(frequency, gamma=1j * frequency.w / 3e8, z0=50.0)
        network = medium.capacitor(c * 1e-12) ** medium.line(0.01, "m") ** medium.short()
        return np.abs(network.s[1, 0, 0] + 0.5)

    yield "cascade", cascade, 2.0
    yield "s2z", lambda x: m.network.s2z(np.array([[[x + 0j, 0.1], [0.1, 0.3]]]))[0, 0, 0].real, 0.2
    yield "z2s", lambda x: m.network.z2s(np.array([[[x + 10j, 5.0], [5.0, 30.0]]]))[0, 0, 0].real, 20.0
    yield "s2t", lambda x: np.abs(m.network.s2t(np.array([[[x + 0.1j, 0.5], [0.5, 0.3]]]))[0, 0, 1]), 0.2


@package("sgp4")
def satellites(load, np):
    m = load("sgp4.model")

    def orbit(x):
        s = m.Satrec()
        s.sgp4init(m.WGS72, "i", 5, 18441.785, 2.8098e-05, 6.97e-13, 0.0, x[0], 5.79, x[1], 0.337, 0.047, 6.086)
        return s.sgp4(18441.785 + 2433281.5, 20 / 1440)

    elements = numpy.array([0.1859667, 0.5980929])
    yield "position", lambda x: orbit(x)[1][0], elements
    yield "velocity", lambda x: orbit(x)[2][2], elements
    yield "height", lambda x: sum(c * c for c in orbit(x)[1]) ** 0.5, elements


@package("spatialmath")
def poses(load, np):
    m, base = load("spatialmath"), load("spatialmath.base")
    angles = numpy.array([0.1, 0.2, 0.3])
    yield "rotation", lambda t: base.rotx(t)[1, 2], 0.3
    yield "exponential", lambda x: base.trexp(x)[0, 3], numpy.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3])
    yield "logarithm", lambda x: base.trlog(base.rpy2r(*x), twist=True)[0], angles
    yield "pose", lambda x: (m.SE3(*x) * m.SE3.Rx(x[0]) * numpy.array([1.0, 2.0, 3.0]))[1, 0], angles


@package("statsmodels")
def likelihoods(load, np):
    rng = numpy.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), (rng.random(20) > 0.5) * 1.0
    discrete, genmod = load("statsmodels.discrete.discrete_model"), load("statsmodels.genmod.generalized_linear_model")
    families = load("statsmodels.genmod.families")
    at = numpy.array([0.1, 0.2])
    for name in ("Logit", "Probit", "Poisson"):
        yield name, getattr(discrete, name)(y, X).loglike, at
    yield "GLM", genmod.GLM(y, X, family=families.Binomial()).loglike, at


@package("lifelines")
def survival(load, np):
    m, times = load("lifelines"), numpy.array([1.0, 2.0, 3.0, 2.5])
    weibull, lognormal, logistic = m.WeibullFitter(), m.LogNormalFitter(), m.LogLogisticFitter()
    at = numpy.array([2.0, 1.5])
    yield "Weibull", lambda p: weibull._cumulative_hazard(p, times).sum(), at
    yield "log-normal", lambda p: lognormal._cumulative_hazard(p, times).sum(), at
    yield "log-logistic", lambda p: logistic._cumulative_hazard(p, times).sum(), at


@package("control")
def systems(load, np):
    m = load("control")
    yield "state space", lambda k: np.abs(m.ss(np.array([[0.0, 1.0], [-k, -0.5]]), [[0.0], [1.0]], [[1.0, 0.0]], 0.0)(1j)), 2.0
    yield "feedback", lambda k: np.abs(m.feedback(m.tf([k], [1.0, 1.0, 0.0]), 1)(2j)), 2.0
    yield "lyapunov", lambda k: m.lyap(np.array([[0.0, 1.0], [-k, -0.5]]), numpy.eye(2))[0, 0], 2.0
    yield "gain", lambda k: m.tf([k, 1.0], [1.0, k + 1]).dcgain(), 2.0


@package("geographiclib")
def geodesics(load, np):
    g = load("geographiclib.geodesic").Geodesic.WGS84
    yield "inverse", lambda lat: g.Inverse(lat, 174.81, 40.96, -5.50)["s12"], -41.32
    yield "direct", lambda s: g.Direct(40.6, -73.8, 45.0, s)["lat2"], 1e6
    yield "azimuth", lambda lat: g.Inverse(lat, 4.81, 40.96, -5.50)["azi1"], 41.32


@package("numpy_financial")
def finance(load, np):
    m = load("numpy_financial")
    yield "npv", lambda r: m.npv(r, [-100.0, 39.0, 59.0, 55.0, 20.0]), 0.28
    yield "pmt", lambda r: m.pmt(r, 180, 200000.0), 0.006
    yield "fv", lambda r: m.fv(r, 120, -100.0, -100.0), 0.004
    yield "rate", lambda p: m.rate(10, 0.0, p, 10000.0), -3500.0


@package("psychrolib")
def moist_air(load, np):
    m = load("psychrolib")
    m.SetUnitSystem(m.SI)
    yield "humidity", lambda T: m.GetRelHumFromHumRatio(T, 0.009, 95461.0), 25.0
    yield "dew point", lambda T: m.GetTDewPointFromRelHum(T, 0.6), 25.0
    yield "enthalpy", lambda T: m.GetMoistAirEnthalpy(T, 0.01), 25.0


@package("pymap3d")
def coordinates(load, np):
    m = load("pymap3d")
    yield "ecef", lambda lat: m.geodetic2ecef(lat, 10.0, 100.0)[0], 42.0
    yield "geodetic", lambda x: m.ecef2geodetic(x, 1e6, 4e6)[0], 5e6
    yield "enu", lambda lat: m.geodetic2enu(lat, -82.0, 1000.0, 42.0, -81.0, 200.0)[1], 42.1


@package("thermo")
def equations_of_state(load, np):
    eos, nrtl = load("thermo.eos"), load("thermo.nrtl")
    hexane = {"P": 1e6, "Tc": 507.6, "Pc": 3025000.0, "omega": 0.2975}
    alphas = [[0.0, 0.29], [0.29, 0.0]]
    yield "volume", lambda T: eos.PR(T=T, **hexane).V_l, 299.0
    yield "enthalpy", lambda T: eos.PR(T=T, **hexane).H_dep_l, 299.0
    yield "activity", lambda t: nrtl.NRTL_gammas([0.25, 0.75], [[0.0, t], [1.6, 0.0]], alphas)[0], 0.5


@package("ht")
def heat(load, np):
    m = load("ht")
    water = {"rhol": 957.9, "rhog": 0.596, "mul": 2.79e-4, "kl": 0.68, "Cpl": 4217.0, "Hvap": 2.257e6, "sigma": 0.0589}
    yield "convection", lambda Re: m.Nu_conv_internal(Re=Re, Pr=0.7, fd=0.03), 1e5
    yield "mean difference", lambda T: m.LMTD(T, 60.0, 30.0, 40.2), 100.0
    yield "effectiveness", lambda N: m.effectiveness_from_NTU(NTU=N, Cr=0.7, subtype="counterflow"), 1.5
    yield "boiling", lambda Te: m.Rohsenow(Te=Te, Csf=0.011, n=1.26, **water), 4.9


@package("uncertainties")
def uncertain_numbers(load, np):
    m, functions = load("uncertainties"), load("uncertainties.umath")

    def correlated(x):
        a, b = m.ufloat(x, 0.1), m.ufloat(2.0, 0.2)
        return (a * b - a).std_dev

    yield "product", lambda x: (m.ufloat(x, 0.1) * m.ufloat(2.0, x / 10)).std_dev, 3.0
    yield "power", lambda x: (m.ufloat(x, 0.1) ** 2 / m.ufloat(2.0, 0.3)).nominal_value, 3.0
    yield "sine", lambda x: functions.sin(m.ufloat(x, 0.2)).std_dev, 0.4
    yield "correlated", correlated, 1.5


@package("geomdl")
def splines(load, np):
    curves, utilities, linalg = load("geomdl.BSpline"), load("geomdl.utilities"), load("geomdl.linalg")

    def height(t, c):
        curve = curves.Curve()
        curve.degree, curve.ctrlpts = 3, [[0.0, 0.0], [1.0, c], [2.0, 1.0], [3.0, -1.0], [4.0, 0.0]]
        curve.knotvector = utilities.generate_knot_vector(3, 5)
        return curve.evaluate_single(t)[1]

    yield "control point", lambda c: height(0.4, c), 2.0
    yield "parameter", lambda t: height(t, 2.0), 0.4
    yield "length", lambda x: linalg.vector_magnitude([x, 2.0, 3.0]), 1.0
    yield "system", lambda x: linalg.lu_solve([[x, 1.0], [1.0, 3.0]], [[1.0], [2.0]])[0][0], 2.0


@package("pytransform3d")
def transforms(load, np):
    r, t = load("pytransform3d.rotations"), load("pytransform3d.transformations")
    start, end = numpy.array([1.0, 0.0, 0.0, 0.0]), numpy.array([0.8, 0.6, 0.0, 0.0])
    yield "axis and angle", lambda a: r.matrix_from_axis_angle(a)[0, 1], numpy.array([0.6, 0.0, 0.8, 0.4])
    yield "slerp", lambda s: r.quaternion_slerp(start, end, s)[1], 0.3
    yield "exponential", lambda x: t.transform_from_exponential_coordinates(x)[0, 3], numpy.array([0.1, 0.2, 0.3, 1.0, 2.0, 3.0])


@package("windpowerlib")
def wind(load, np):
    speed, density, power = (load(f"windpowerlib.{name}") for name in ("wind_speed", "density", "power_output"))
    speeds, coefficients = numpy.array([4.0, 5.0, 6.0, 7.0, 8.0]), numpy.array([0.3, 0.4, 0.45, 0.46, 0.45])
    output = lambda v: power.power_coefficient_curve(np.array([v, 7.0]), speeds, coefficients, 100.0, 1.2)
    yield "logarithmic", lambda v: speed.logarithmic_profile(v, 10.0, 100.0, 0.15), 5.0
    yield "density", lambda T: density.barometric(101125.0, 10.0, 100.0, T), 280.0
    yield "power", lambda v: np.asarray(output(v)).sum(), 5.3


@package("skyfield")
def sky(load, np):
    m, earth = load("skyfield.functions"), load("skyfield.earthlib")
    at, other = numpy.array([0.3, 0.5, 0.7]), numpy.array([0.1, 0.9, 0.2])
    yield "spherical", lambda x: m.to_spherical(x)[1], at
    yield "angle", lambda x: m.angle_between(x, other), at
    yield "refraction", lambda a: earth.refraction(a, 10.0, 1010.0), 20.0


@package("networkx")
def graphs(load, np):
    """Modules that import one another by the name of their package, and decorators that compile functions on first use."""
    m, ranks = load("networkx"), load("networkx.algorithms.link_analysis.pagerank_alg")

    def weighted(w):
        graph = m.DiGraph()
        graph.add_weighted_edges_from([(0, 1, 1.0), (1, 2, w), (2, 0, 1.0), (1, 0, 2.0)])
        return graph

    yield "shortest path", lambda w: m.dijkstra_path_length(weighted(w), 0, 2), 0.7
    yield "matrix", lambda w: m.to_numpy_array(weighted(w))[1, 2] * w, 0.7
    yield "rank", lambda w: ranks._pagerank_python(weighted(w), tol=1e-3)[2], 0.7


@package("padasip")
def adaptive_filters(load, np):
    m = load("padasip.filters")
    inputs = numpy.random.default_rng(0).normal(size=(7, 3))
    target = inputs @ numpy.array([0.3, -0.2, 0.5])

    def error(name, **options):
        return lambda mu: (getattr(m, name)(n=3, mu=mu, w="zeros", **options).run(target, inputs)[1] ** 2).sum()

    yield "LMS", error("FilterLMS"), 0.1
    yield "normalised", error("FilterNLMS"), 0.1
    yield "sign", error("FilterSSLMS"), 0.05


@package("boule")
def ellipsoids(load, np):
    m = load("boule")

    def earth(inverse):
        return m.Ellipsoid("e", 6378137.0, 1 / inverse, geocentric_grav_const=3.986004418e14, angular_velocity=7.292115e-5)

    yield "gravity", lambda lat: earth(298.257).normal_gravity((0.0, lat, 100.0)), 45.0
    yield "radius", lambda inverse: earth(inverse).geocentric_radius(30.0), 298.257
    yield "height", lambda z: earth(298.257).cartesian_to_geodetic((5e6, 1e6, z * 1e6))[2], 4.0


@package("hankel")
def hankel_transforms(load, np):
    m = load("hankel")
    zeroth, first = m.HankelTransform(nu=0, N=60, h=0.02), m.HankelTransform(nu=1, N=60, h=0.02)
    yield "integral", lambda a: zeroth.integrate(lambda x: np.exp(-a * x), ret_err=False), 1.3
    yield "transform", lambda a: first.transform(lambda x: np.exp(-a * x * x), 0.7, ret_err=False), 1.3
    yield "wave number", lambda k: zeroth.transform(lambda x: np.exp(-x * x), k, ret_err=False), 0.7


@package("nelson_siegel_svensson")
def yield_curves(load, np):
    m = load("nelson_siegel_svensson")
    yield "zero rate", lambda tau: m.NelsonSiegelCurve(3.0, -1.0, 2.0, tau)(1.3), 2.0
    yield "forward rate", lambda tau: m.NelsonSiegelCurve(3.0, -1.0, 2.0, tau).forward(1.3), 2.0
    yield "Svensson", lambda t: m.NelsonSiegelSvenssonCurve(3.0, -1.0, 2.0, 1.0, 2.0, 3.0)(t), 1.3


@package("pygfunction")
def boreholes(load, np):
    m = load("pygfunction")

    def response(depth):
        """An integral by `scipy.integrate.quad` or its kin."""
        borehole = m.boreholes.Borehole(100.0, depth, 0.075, 0.0, 0.0)
        return m.heat_transfer.finite_line_source(3.15e7, 1e-6, borehole, borehole)

    yield "response", response, 4.0
    yield "friction", lambda q: m.pipes.fluid_friction_factor_circular_pipe(q, 0.01, 1e-3, 1000.0, 1e-6), 1.3
    film = (0.01, 1e-3, 1000.0, 0.6, 4000.0, 1e-6)
    yield "film", lambda q: m.pipes.convective_heat_transfer_coefficient_circular_pipe(q, *film), 1.3


@package("trueskill")
def ratings(load, np):
    m = load("trueskill")
    yield "quality", lambda mu: m.quality_1vs1(m.Rating(mu), m.Rating(24.0)), 27.0
    yield "mean", lambda mu: m.rate_1vs1(m.Rating(mu), m.Rating(24.0))[0].mu, 27.0
    yield "loser", lambda mu: m.rate_1vs1(m.Rating(25.0), m.Rating(mu))[1].mu, 24.0


@package("eqsig")
def earthquakes(load, np):
    response, intensity = load("eqsig.sdof"), load("eqsig.im")
    shake = numpy.sin(0.3 * numpy.arange(50.0)) * numpy.hanning(50)
    yield "response", lambda T: response.response_series(shake, 0.01, np.array([T]), 0.05)[0][0, -1], 0.7
    yield "spectrum", lambda T: response.pseudo_response_spectra(shake, 0.01, np.array([T]), 0.05)[2][0], 0.7
    yield "intensity", lambda a: intensity.calc_arias_intensity(load("eqsig").AccSignal(a, 0.01))[-1], shake[10:20]


@package("pystoi")
def speech(load, np):
    m, utils = load("pystoi"), load("pystoi.utils")
    rng = numpy.random.default_rng(0)
    clean, noise = rng.standard_normal(4500), rng.standard_normal(4500)
    yield "intelligibility", lambda e: m.stoi(clean, clean + e * noise, 10000), 0.3
    yield "by the clean signal", lambda e: m.stoi(clean + e * noise, clean, 10000), 0.3
    yield "resampled", lambda e: np.sum(utils.resample_oct(clean[:60] ** 2 + e * noise[:60], 3, 2) ** 2), 0.3


@package("similaritymeasures")
def curves(load, np):
    m = load("similaritymeasures")
    rng = numpy.random.default_rng(0)
    one, other = rng.standard_normal((6, 2)).cumsum(0), rng.standard_normal((7, 2)).cumsum(0)
    yield "Fréchet", lambda x: m.frechet_dist(x, other), one
    yield "time warping", lambda x: m.dtw(x, other)[0], one
    yield "areas", lambda x: m.area_between_two_curves(x, other), one


@package("polliwog")
def planes(load, np):
    m = load("polliwog")  # its objects keep arrays that are declared read-only
    points = numpy.random.default_rng(0).standard_normal((4, 3))
    yield "distance", lambda x: m.Plane.from_points(*x[:3]).signed_distance(numpy.array([1.0, 2.0, 3.0])), points
    yield "length", lambda x: m.Polyline(x, is_closed=True).total_length, points
    yield "projection", lambda x: m.Line(x[0], numpy.array([1.0, 2.0, 3.0])).project(numpy.array([1.0, 0.0, 0.0]))[1], points


@package("simple_pid")
def controllers(load, np):
    m = load("simple_pid")

    def controlled(gain, **limits):
        pid, y = m.PID(gain, 0.5, 0.05, setpoint=1.0, sample_time=None, **limits), 0.0
        for _ in range(6):
            y = y + 0.1 * (pid(y, dt=0.1) - y)
        return y

    yield "loop", controlled, 0.7
    yield "limits", lambda gain: controlled(gain, output_limits=(0, 0.8)), 0.7
    yield "setpoint", lambda s: m.PID(1.0, 0.1, 0.05, setpoint=s, sample_time=None)(0.3, dt=0.1), 0.7


@package("GTC")
def budgets(load, np):
    m = load("GTC")
    yield "uncertainty", lambda x: m.uncertainty(m.ureal(x, 0.1) * m.ureal(2.0, 0.2)), 1.3
    yield "value", lambda x: m.value(m.sin(m.ureal(x, 0.1)) / m.ureal(2.0, 0.2)), 1.3
    yield "degrees of freedom", lambda x: m.dof(m.ureal(x, 0.1, 5) + m.ureal(2.0, 0.2, 7) * x), 1.3


@package("nashpy")
def games(load, np):
    m = load("nashpy")
    A, B = numpy.array([[1.0, 2.0], [3.0, 0.5]]), numpy.array([[2.0, 1.0], [0.0, 3.0]])
    yield "payoff", lambda x: m.Game(x, -x)[numpy.array([0.3, 0.7]), numpy.array([0.6, 0.4])][0], A
    yield "equilibrium", lambda x: list(m.Game(x, B).support_enumeration())[-1][1][0], A
    yield "other player", lambda x: list(m.Game(A, x).support_enumeration())[-1][0][0], B


@package("squaternion")
def turns(load, np):
    Q = load("squaternion").Quaternion
    yield "angles", lambda x: Q.from_euler(x, 0.2, 0.3).to_euler()[1] * Q.from_euler(x, 0.2, 0.3).w, 0.4
    yield "product", lambda x: (Q(1, x, 0.2, 0.3) * Q(0.1, 0.2, x, 0.4)).y, 0.4
    yield "normal", lambda x: Q(1, x, 0.2, 0.3).normalize.x, 0.4


def differences(f, x):
    """Central differences, extrapolated."""

    def central(h):
        steps = h * numpy.maximum(numpy.abs(x), 1.0) * numpy.eye(numpy.size(x)).reshape(-1, *numpy.shape(x))
        found = [(f(x + s) - f(x - s)) / (2 * numpy.sum(s)) for s in (steps if numpy.ndim(x) else [float(steps.item())])]
        return numpy.array(found).reshape(numpy.shape(x))

    return (4 * central(1e-4) - central(2e-4)) / 3


def compiled_together(cases):
    """jit(grad(f)) of all cases in one program: functions of one point share what they compute, and one compilation."""
    points = list({id(x): x for _, _, x in cases}.values())
    places = [next(i for i, p in enumerate(points) if p is x) for _, _, x in cases]
    program = ad.jit(lambda *xs: [ad.grad(f)(xs[i]) for (_, f, _), i in zip(cases, places, strict=True)])
    return program(*points), str(program.report())


@pytest.mark.parametrize("name", CASES)
def test_package(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed; the extra 'adopt' has it (quantecon: with --no-deps)")
    plain = name != "quantecon" or importlib.util.find_spec("numba") is not None  # whose original needs numba
    originals = {key: f for key, f, _ in CASES[name](importlib.import_module, numpy)} if plain else {}
    cases = list(CASES[name](ad.adopt, adjoint.numpy))
    assert len(cases) >= 3
    gradients = {}
    for key, f, x in cases:
        if originals:
            assert f(numpy.copy(x)[()]) == originals[key](numpy.copy(x)[()]), key  # some write to their arguments
        gradients[key], expected = ad.grad(f)(x), differences(f, x)
        error = numpy.abs(gradients[key] - expected).max() / numpy.abs(expected).max()
        assert error < 1e-6, (key, gradients[key], expected)
    for some in ([case for case in cases if case[0] not in EAGER], [case for case in cases if case[0] in EAGER]):
        found, report = compiled_together(some) if some else ([], "")
        for (key, _, _), g in zip(some, found, strict=True):
            assert numpy.allclose(g, gradients[key], rtol=1e-10, atol=1e-14), key
        assert ("runs eagerly" in report) == any(key in EAGER for key, _, _ in some), report


@pytest.mark.parametrize("name", ["emt", "lennard_jones"])
def test_forces(name):
    """The gradient of the energy is the library's own forces, with the opposite sign."""
    pytest.importorskip("ase")
    atoms = importlib.import_module("ase").Atoms("Cu3" if name == "emt" else "Ar3", positions=POSITIONS)
    module = importlib.import_module(f"ase.calculators.{'emt' if name == 'emt' else 'lj'}")
    atoms.calc = module.EMT() if name == "emt" else module.LennardJones(sigma=2.3, epsilon=0.1, rc=6.0)
    f = next(f for key, f, _ in molecules(ad.adopt, adjoint.numpy) if key == name)
    assert numpy.allclose(ad.grad(f)(POSITIONS), -atoms.get_forces(), rtol=1e-10, atol=1e-12)
