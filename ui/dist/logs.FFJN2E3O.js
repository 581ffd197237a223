import"./c.WQQH2IJ2.js";import"./c.GXBYSAC4.js";import"./c.K3RACSUY.js";
