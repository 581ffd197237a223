import"./c.KF7U6P6A.js";import"./c.KT255ZYZ.js";import"./c.MOAVTL4V.js";import"./c.LYXALABG.js";import"./c.W7VN5GBK.js";
