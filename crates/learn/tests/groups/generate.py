"""Writes cases.json: clusterings and decompositions of the built-in data sets by scikit-learn, and its metrics of them.

Run it by hand when a family or a case is added (scikit-learn 1.9 or later):

    python generate.py > cases.json

A label is one character: a digit or a letter for a cluster, `-` for none. `agreement` is the least adjusted Rand index
that another implementation must reach: 1 where the algorithm leaves nothing to chance.
"""

import csv
import json
import pathlib
import sys
import warnings

import numpy as np
import sklearn
from sklearn import cluster, decomposition, metrics, mixture

warnings.simplefilter("ignore")
DATASETS = pathlib.Path(__file__).parents[4] / "extension" / "datasets"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def load(name, standardised):
    with open(DATASETS / f"{name}.csv") as file:
        rows = list(csv.reader(file))[1:]
    if name == "digits":
        features = np.array([[int(pixel, 17) for pixel in row[0].replace(" ", "")] for row in rows], np.float32)
    else:
        features = np.array([row[:-1] for row in rows], np.float32)
    if standardised:
        wide = features.astype(np.float64)
        features = ((wide - wide.mean(axis=0)) / np.where(wide.std(axis=0) > 0, wide.std(axis=0), 1)).astype(np.float32)
    return features.astype(np.float64)


ALGORITHMS = {
    "kmeans": cluster.KMeans,
    "mini_batch_kmeans": cluster.MiniBatchKMeans,
    "affinity_propagation": cluster.AffinityPropagation,
    "birch": cluster.Birch,
    "dbscan": cluster.DBSCAN,
    "optics": cluster.OPTICS,
    "feature_agglomeration": cluster.AgglomerativeClustering,
    "mean_shift": cluster.MeanShift,
    "spectral": cluster.SpectralClustering,
    "spectral_bi": cluster.SpectralBiclustering,
    "spectral_co": cluster.SpectralCoclustering,
    "gaussian_mixture": mixture.GaussianMixture,
}
SEEDED = {name for name, algorithm in ALGORITHMS.items() if "random_state" in algorithm().get_params()}


def case(algorithm, data, standardised, agreement, /, **hyperparams):
    rows = load(data, standardised)
    seeded = {"random_state": 0} if algorithm in SEEDED else {}
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in hyperparams.items()}
    model = ALGORITHMS[algorithm](**plain, **seeded)
    if algorithm == "gaussian_mixture":
        labels = model.fit_predict(rows)
    elif algorithm in ("spectral_bi", "spectral_co"):
        labels = model.fit(rows).row_labels_
    else:
        labels = model.fit(rows).labels_
    found = {
        "algorithm": algorithm,
        "data": data,
        "standardised": standardised,
        "hyperparams": hyperparams,
        "agreement": agreement,
        "labels": "".join("-" if label < 0 else DIGITS[label] for label in labels),
    }
    if hasattr(model, "inertia_"):
        found["inertia"] = float(model.inertia_)
    if algorithm == "gaussian_mixture":
        found["likelihood"] = float(model.score(rows))
    if 1 < len(set(labels)) < len(labels):
        found["silhouette"] = float(metrics.silhouette_score(rows, labels))
        found["calinski_harabasz"] = float(metrics.calinski_harabasz_score(rows, labels))
        found["davies_bouldin"] = float(metrics.davies_bouldin_score(rows, labels))
    shown = {key: value for key, value in found.items() if key != "labels"}
    print(shown, len(set(labels)), file=sys.stderr)
    return found


def components(algorithm, data, standardised, /, **hyperparams):
    rows = load(data, standardised)
    model = {"pca": decomposition.PCA, "truncated_svd": decomposition.TruncatedSVD}[algorithm](**hyperparams)
    model.fit(rows)
    return {
        "algorithm": algorithm,
        "data": data,
        "standardised": standardised,
        "hyperparams": hyperparams,
        "first": model.transform(rows[:3]).tolist(),
        "explained": float(model.explained_variance_ratio_.sum()),
    }


decompositions = [
    components("pca", "iris", False),
    components("pca", "iris", True, n_components=2, whiten=True),
    components("pca", "wine", False, n_components=3),
    components("pca", "wine", True, n_components=0.8),
    components("pca", "breast_cancer", False, n_components=3, svd_solver="full"),
    components("pca", "breast_cancer", True, n_components=0.95, whiten=True),
    components("pca", "digits", False, n_components=10),
    components("truncated_svd", "iris", False, algorithm="arpack"),
    components("truncated_svd", "wine", True, n_components=5, algorithm="arpack"),
    components("truncated_svd", "digits", False, n_components=7, algorithm="arpack"),
]
cases = [
    case("kmeans", "iris", False, 0.98, n_clusters=3, n_init=10),
    case("kmeans", "wine", True, 0.98, n_clusters=3, n_init=10),
    case("kmeans", "breast_cancer", False, 0.98, n_clusters=2),
    case("kmeans", "digits", False, 0.95, n_clusters=10, n_init=10),
    case("kmeans", "digits", True, 0.6, n_clusters=10, n_init=10, init="random", algorithm="elkan"),
    # As far as two seeds of scikit-learn's agree with each other here, of which the other one is better.
    case("mini_batch_kmeans", "iris", False, 0.75, n_clusters=3, n_init=10),
    case("mini_batch_kmeans", "wine", True, 0.9, n_clusters=3),
    case("mini_batch_kmeans", "digits", False, 0.6, n_clusters=10, batch_size=256),
    case("dbscan", "iris", False, 1),
    case("dbscan", "iris", True, 1, eps=0.6, min_samples=4),
    case("dbscan", "wine", True, 1, eps=2.2),
    case("dbscan", "wine", True, 1, eps=6.5, metric="manhattan", min_samples=4),
    case("dbscan", "breast_cancer", True, 1, eps=2.5, min_samples=10),
    case("dbscan", "digits", False, 1, eps=20.5),
    case("optics", "iris", False, 1),
    case("optics", "iris", False, 1, min_samples=10, min_cluster_size=20),
    case("optics", "iris", True, 1, cluster_method="dbscan", eps=0.6),
    case("optics", "wine", True, 1, xi=0.02),
    case("optics", "breast_cancer", True, 1, min_samples=8, metric="manhattan", predecessor_correction=False),
    case("optics", "digits", False, 1, min_samples=10, max_eps=30.0),
    case("feature_agglomeration", "iris", False, 1, n_clusters=3),
    case("feature_agglomeration", "wine", True, 1),
    case("feature_agglomeration", "wine", True, 1, n_clusters=3, linkage="complete"),
    case("feature_agglomeration", "wine", True, 1, n_clusters=5, linkage="average"),
    case("feature_agglomeration", "breast_cancer", True, 1, n_clusters=4, linkage="average", metric="manhattan"),
    case("feature_agglomeration", "iris", True, 1, n_clusters=4, linkage="single"),
    case("feature_agglomeration", "wine", True, 1, n_clusters=None, distance_threshold=12.0),
    case("feature_agglomeration", "digits", False, 1, n_clusters=10),
    case("affinity_propagation", "iris", False, 1),
    case("affinity_propagation", "iris", False, 1, preference=-50, damping=0.7),
    case("affinity_propagation", "wine", True, 1, damping=0.8),
    case("affinity_propagation", "breast_cancer", True, 1, preference=-700, damping=0.9, max_iter=500),
    case("mean_shift", "iris", False, 1),
    case("mean_shift", "iris", False, 1, bandwidth=0.8, cluster_all=False),
    case("mean_shift", "wine", True, 1, bandwidth=3.0),
    case("mean_shift", "breast_cancer", True, 1, bin_seeding=True, bandwidth=3.0, min_bin_freq=2),
    case("birch", "iris", False, 0.95),
    case("birch", "iris", False, 0.95, threshold=0.3, branching_factor=10, n_clusters=4),
    case("birch", "wine", True, 0.95, threshold=1.0),
    case("birch", "digits", False, 0.8, threshold=10.0, n_clusters=10),
    case("birch", "iris", False, 0.95, threshold=0.9, n_clusters=None),
    case("gaussian_mixture", "iris", False, 0.98, n_components=3, n_init=5),
    case("gaussian_mixture", "wine", True, 0.95, n_components=3, covariance_type="diag", n_init=5),
    # As above.
    case("gaussian_mixture", "wine", True, 0.92, n_components=3, covariance_type="tied", n_init=5),
    case("gaussian_mixture", "iris", True, 0.95, n_components=3, covariance_type="spherical", n_init=5),
    case("spectral", "iris", True, 0.98, n_clusters=3),
    case("spectral", "wine", True, 0.95, n_clusters=3, gamma=0.1),
    case("spectral", "wine", True, 0.95, n_clusters=3, affinity="nearest_neighbors"),
    case("spectral", "digits", False, 0.95, n_clusters=10, affinity="nearest_neighbors"),
    case("spectral_co", "iris", False, 0.95),
    case("spectral_co", "wine", False, 0.95, n_clusters=4),
    case("spectral_co", "breast_cancer", False, 0.95, n_clusters=2),
    case("spectral_bi", "iris", False, 0.95, n_components=3, n_best=2),
    case("spectral_bi", "wine", False, 0.95, n_components=4),
    case("spectral_bi", "breast_cancer", False, 0.95, method="log", n_clusters=[2, 3]),
    case("spectral_bi", "breast_cancer", False, 0.95, method="scale"),
]
lines = {
    name: ",\n".join(map(json.dumps, found)) for name, found in (("groups", cases), ("components", decompositions))
}
tables = ",\n".join(f'"{name}": [\n{text}\n]' for name, text in lines.items())
print(f'{{"scikit-learn": "{sklearn.__version__}",\n{tables}}}')
