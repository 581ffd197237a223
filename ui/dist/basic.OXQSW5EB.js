import"./c.G6QJ5ZAD.js";import"./c.K3RACSUY.js";
