"""
Denoising digits by kernel PCA
==============================

Noisy images are projected on the leading components of clean ones, and the way back, a pre-image, leaves the noise
behind. Two ways back: a ridge regression from components to pixels, and the fixed-point iteration of Mika et al.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from gramian import KernelPCA
from gramian.kernels import RBF

images = load_digits().data / 16.0
rng = np.random.default_rng(0)
order = rng.permutation(len(images))
train, clean = images[order[:1000]], images[order[1000:1200]]
noisy = clean + 0.3 * rng.standard_normal(clean.shape)

shown = {"clean": clean, "noisy": noisy}
for inverse in ("ridge", "fixed-point"):
    model = KernelPCA(
        40,
        kernel=RBF(3.0),
        fit_inverse_transform=True,
        inverse=inverse,
        alpha=0.01,
        random_state=0,
    ).fit(train)
    shown[inverse] = model.inverse_transform(model.transform(noisy))
print(model.certificate_)

figure, axes = plt.subplots(4, 10, figsize=(10, 4.4))
for row, (name, rows) in zip(axes, shown.items(), strict=True):
    print(
        f"{name}: root-mean-square error {np.sqrt(np.mean((rows - clean) ** 2)):.3f}"
    )
    row[0].set_ylabel(name)
    for ax, image in zip(row, rows, strict=False):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
figure.tight_layout()
plt.show()
