import"./c.GXBYSAC4.js";import"./c.K3RACSUY.js";
